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

// errNo is the error of "policy can" when the answer is no.
var errNo = errors.New("no")

func policyCommand(environ []string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Validate and query the authorization policy",
		Args:  arguments(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			return usageError{errors.New("fanoutd policy requires a command: check or can")}
		},
	}
	cmd.AddCommand(policyCheckCommand(environ), policyCanCommand(environ))
	return cmd
}

func policyCheckCommand(environ []string) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Validate the policy file",
		Long: `Validate the file that policy-file names. The exit code is 2 if the policy is invalid.

Resources in the policy that are not configured are reported, but they are not an error,
because several servers may share a policy.`,
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, cfg, err := readPolicy(cmd.Flags(), environ)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			for _, name := range p.Resources() {
				if !slices.ContainsFunc(cfg.Resources, func(r config.Resource) bool { return r.Name == name }) {
					fmt.Fprintf(out, "%s: resource %q is not configured\n", cfg.PolicyFile, name)
				}
			}
			_, err = fmt.Fprintf(out, "%s: valid\n", cfg.PolicyFile)
			return err
		},
	}
}

func policyCanCommand(environ []string) *cobra.Command {
	var prefix string
	var groups []string
	cmd := &cobra.Command{
		Use:   "can SUBJECT VERB RESOURCE [KEY]",
		Short: "Check whether the policy allows an action",
		Long: `Check whether the policy file allows SUBJECT to do VERB on a key of RESOURCE, on a prefix,
or, without either, on the whole resource. The subject "` + policy.Anonymous + `" is a client without
credentials. The subject has the groups of --groups, and those of its tokens in the token file.

Prints yes or no. The exit code is 1 for no.`,
		Example: `  # Check a single key
  fanoutd --policy-file policy.yaml policy can alice get config eu/limits

  # Check a prefix, for a member of a group
  fanoutd --policy-file policy.yaml policy can bob watch config --prefix eu --groups staff`,
		Args: arguments(cobra.RangeArgs(3, 4)),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, cfg, err := readPolicy(cmd.Flags(), environ)
			if err != nil {
				return err
			}
			if cfg.TokenFile != "" {
				identities, err := access.ReadIdentities(cfg.TokenFile)
				if err != nil {
					return usageError{err}
				}
				for _, token := range identities {
					if token.Name == args[0] {
						groups = append(groups, token.Groups...)
					}
				}
			}
			caller := access.Identity{Name: args[0], Groups: groups, Method: access.Token}
			if caller.Name == policy.Anonymous {
				caller = access.Identity{}
			}
			q, err := question(args[1:], prefix)
			if err != nil {
				return usageError{err}
			}
			return answer(cmd.OutOrStdout(), p.Grants(caller, q))
		},
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "check all keys below this `path`")
	cmd.Flags().StringSliceVar(&groups, "groups", nil, "comma-separated `names` of the subject's groups")
	return cmd
}

// readPolicy reads the policy file of the configuration.
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

// question parses the arguments VERB RESOURCE [KEY] and the flag --prefix.
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
