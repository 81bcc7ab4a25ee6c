package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/client"
)

// selection is which objects a command is about.
type selection struct {
	prefix string
	key    string
	labels string
	fields string
}

func (s *selection) bind(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&s.labels, "selector", "l", "", "only objects whose `labels` match, such as env=prod,tier!=test")
	cmd.Flags().StringVar(&s.fields, "fields", "", "only objects whose `fields` match, such as region=eu,name!=default")
}

// below takes the argument that names a path, if there is one. A slash at its end
// means the same.
func (s *selection) below(args []string) {
	if len(args) > 1 {
		s.prefix = strings.Trim(args[1], "/")
	}
}

func (s *selection) options() []client.Selection {
	var opts []client.Selection
	if s.prefix != "" {
		opts = append(opts, client.Prefix(s.prefix))
	}
	if s.key != "" {
		opts = append(opts, client.Key(s.key))
	}
	if s.labels != "" {
		opts = append(opts, client.Labels(s.labels))
	}
	if s.fields != "" {
		opts = append(opts, client.Fields(s.fields))
	}
	return opts
}

func (s *selection) forList() []client.ListOption {
	var opts []client.ListOption
	for _, o := range s.options() {
		opts = append(opts, o)
	}
	return opts
}

func (s *selection) forWatch() []client.WatchOption {
	var opts []client.WatchOption
	for _, o := range s.options() {
		opts = append(opts, o)
	}
	return opts
}

// String says what is selected, for messages.
func (s *selection) String() string {
	text := ""
	if s.prefix != "" {
		text += " below " + s.prefix
	}
	if s.key != "" {
		text += " with the key " + s.key
	}
	if s.labels != "" || s.fields != "" {
		text += " that matches"
	}
	return text
}
