package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/config"
)

// errNo is the answer of a command that asks something.
var errNo = errors.New("no")

func policyCommand(environ []string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Check the policy, and ask it",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			return usageError{errors.New("fanoutd policy needs a command: check or can")}
		},
	}
	cmd.AddCommand(policyCheckCommand(environ), policyCanCommand(environ))
	return cmd
}

func policyCheckCommand(environ []string) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Check the policy file",
		Long: `Check the file that policy-file names. Exits with status 2 if it cannot be used, and
says why. Resources that it names and the configuration does not have are no mistake,
because several servers may share a policy; they are told.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, cfg, err := readPolicy(cmd.Flags(), environ)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			for _, name := range p.Resources() {
				if !slices.ContainsFunc(cfg.Resources, func(r config.Resource) bool { return r.Name == name }) {
					fmt.Fprintf(out, "%s: there is no resource %q in the configuration\n", cfg.PolicyFile, name)
				}
			}
			_, err = fmt.Fprintf(out, "%s: can be used\n", cfg.PolicyFile)
			return err
		},
	}
}

func policyCanCommand(environ []string) *cobra.Command {
	var prefix string
	var groups []string
	cmd := &cobra.Command{
		Use:   "can SUBJECT VERB RESOURCE [KEY]",
		Short: "Ask the policy file whether somebody may do something",
		Long: `Ask the file that policy-file names whether SUBJECT may do VERB to one key of RESOURCE,
to a prefix, or, without either, to the whole resource. The subject "` + policy.Anonymous + `" is those who
have not shown who they are. Prints yes or no, and exits with status 1 if it is no.`,
		Example: `  fanoutd --policy-file policy.yaml policy can alice get config eu/limits
  fanoutd --policy-file policy.yaml policy can bob watch config --prefix eu --groups staff`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.RangeArgs(3, 4)(cmd, args); err != nil {
				return usageError{err}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			p, _, err := readPolicy(cmd.Flags(), environ)
			if err != nil {
				return err
			}
			who := access.Identity{Name: args[0], Groups: groups, Method: access.Token}
			if who.Name == policy.Anonymous {
				who = access.Identity{}
			}
			q, err := question(args[1:], prefix)
			if err != nil {
				return usageError{err}
			}
			return answer(cmd.OutOrStdout(), p.Grants(who, q))
		},
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "ask about all keys below the `path`")
	cmd.Flags().StringSliceVar(&groups, "groups", nil, "`groups` that the credentials of the subject name, with commas between them")
	return cmd
}

// readPolicy reads the policy of the configuration.
func readPolicy(flags *pflag.FlagSet, environ []string) (*policy.Policy, config.Config, error) {
	cfg, err := load(flags, environ)
	if err != nil {
		return nil, cfg, err
	}
	if cfg.PolicyFile == "" {
		return nil, cfg, usageError{errors.New("policy-file is not set: everything is allowed")}
	}
	data, err := os.ReadFile(cfg.PolicyFile)
	if err != nil {
		return nil, cfg, usageError{fmt.Errorf("policy-file: %w", err)}
	}
	p, err := policy.Parse(cfg.PolicyFile, data)
	if err != nil {
		return nil, cfg, usageError{err}
	}
	return p, cfg, nil
}

// question returns what is asked: a verb, a resource and perhaps a key, or else a
// prefix.
func question(args []string, prefix string) (policy.Question, error) {
	key := ""
	if len(args) == 3 {
		if key = args[2]; key == "" {
			return policy.Question{}, errors.New("the key must not be empty")
		}
	}
	return policy.ParseQuestion(args[0], args[1], key, prefix)
}

func answer(w io.Writer, yes bool) error {
	if !yes {
		fmt.Fprintln(w, errNo)
		return errNo
	}
	_, err := fmt.Fprintln(w, "yes")
	return err
}
