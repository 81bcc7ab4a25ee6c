package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/internal/cluster/certs"
)

const certsLong = `Create the certificates with which the members of a cluster recognize each other: an
authority of their own, and a folder for each member with ca.pem, cert.pem and key.pem. No file
is overwritten. With the directory of an earlier call, only the new members get a certificate.

HOST is a DNS name or an address at which other members reach the member; a port is ignored. Members
verify each other by a name that all these certificates contain, so addresses may change.

Copy each folder to its machine. authority.pem belongs on none of them: whoever has it can
become a member, and read and write everything.`

func clusterCertsCommand() *cobra.Command {
	var (
		lifetimes certLifetimes
		ifMissing bool
	)
	cmd := &cobra.Command{
		Use:   "certs DIRECTORY NAME=HOST[,HOST]...",
		Short: "Create the certificates of a cluster's members",
		Long:  certsLong,
		Example: `  # Create the certificates of three members
  fanoutd cluster certs certs node-1=10.0.0.1 node-2=10.0.0.2 node-3=10.0.0.3

  # Create another one, for a machine that is added
  fanoutd cluster certs certs node-4=10.0.0.4`,
		Args: arguments(cobra.MinimumNArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			terms, err := lifetimes.terms()
			if err != nil {
				return err
			}
			var members []certs.Member
			for _, arg := range args[1:] {
				m, err := certs.ParseMember(arg)
				if err != nil {
					return usageError{err}
				}
				members = append(members, m)
			}
			if err := os.MkdirAll(args[0], 0o700); err != nil {
				return fmt.Errorf("cannot create certificates: %w", err)
			}
			return reissue(cmd, args[0], "Created", func(d certs.Directory) ([]certs.Issued, error) {
				if ifMissing {
					present, err := d.Issued()
					if err != nil {
						return nil, err
					}
					members = slices.DeleteFunc(members, func(m certs.Member) bool {
						return slices.ContainsFunc(present, func(p certs.Issued) bool { return p.Member.Name == m.Name })
					})
				}
				return d.Add(members, terms)
			})
		},
	}
	lifetimes.flags(cmd)
	cmd.Flags().BoolVar(&ifMissing, "if-missing", false, "leave members that have a certificate as they are")
	cmd.AddCommand(renewCertsCommand(), showCertsCommand())
	return cmd
}

const renewLong = `Replace the certificates and keys of the members that are named, or of all. The authority stays,
so members with old and with new files accept each other. Copy the folders to their machines;
running members read the new files without a restart. NAME=HOST gives a member other hosts.

With --authority, the authority is replaced, too. The old one and the new one overlap until the old
one expires. To finish earlier:

  1. fanoutd cluster certs renew DIRECTORY --authority     copy the folders, then restart
                                                           the members one after another
  2. fanoutd cluster certs renew DIRECTORY --end-overlap   the same again`

func renewCertsCommand() *cobra.Command {
	var (
		lifetimes              certLifetimes
		authority, endsOverlap bool
	)
	cmd := &cobra.Command{
		Use:   "renew DIRECTORY [NAME[=HOST[,HOST]...]]...",
		Short: "Replace certificates, or the authority, before they expire",
		Long:  renewLong,
		Args:  arguments(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			terms, err := lifetimes.terms()
			if err != nil {
				return err
			}
			if (authority || endsOverlap) && len(args) > 1 {
				return usageError{errors.New("--authority and --end-overlap renew the certificates of all members: name none")}
			}
			if authority && endsOverlap {
				return usageError{errors.New("--end-overlap follows --authority, once all members have restarted: give one of them")}
			}
			var members []certs.Member
			for _, arg := range args[1:] {
				m := certs.Member{Name: arg} // with the hosts that it has
				if strings.Contains(arg, "=") {
					if m, err = certs.ParseMember(arg); err != nil {
						return usageError{err}
					}
				}
				members = append(members, m)
			}
			return reissue(cmd, args[0], "Renewed", func(d certs.Directory) ([]certs.Issued, error) {
				switch {
				case authority:
					return d.RenewAuthority(terms)
				case endsOverlap:
					return d.EndOverlap(terms)
				default:
					return d.Renew(members, terms)
				}
			})
		},
	}
	lifetimes.flags(cmd)
	cmd.Flags().BoolVar(&authority, "authority", false, "replace the authority, too, with an overlap")
	cmd.Flags().BoolVar(&endsOverlap, "end-overlap", false, "stop accepting the previous authority")
	return cmd
}

func showCertsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show DIRECTORY",
		Short: "List the certificates with their ends and hosts",
		Args:  arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			d := certs.Directory(args[0])
			a, err := d.Authority()
			if err != nil {
				return err
			}
			issued, err := d.Issued()
			if err != nil {
				return err
			}
			now := time.Now()
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tEXPIRES\tDAYS LEFT\tHOSTS")
			for i, c := range a.Accepted(now) {
				name := "authority"
				if i > 0 {
					name = "previous authority"
				}
				fmt.Fprintf(w, "%s\t%s\t%d\t-\n", name, day(c.NotAfter), certs.DaysUntil(c.NotAfter, now))
			}
			for _, c := range issued {
				fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", c.Member.Name, day(c.Leaf.NotAfter), certs.DaysUntil(c.Leaf.NotAfter, now), strings.Join(c.Member.Hosts, ","))
			}
			return w.Flush()
		},
	}
}

// certLifetimes are the flags with the lifetimes of certificates.
type certLifetimes struct{ member, authority int } // days

func (l *certLifetimes) flags(cmd *cobra.Command) {
	cmd.Flags().IntVar(&l.member, "days", int(certs.MemberLifetime.Hours()/24), "`days` for which the certificates of members are valid")
	cmd.Flags().IntVar(&l.authority, "authority-days", int(certs.AuthorityLifetime.Hours()/24), "`days` for which a new authority is valid")
}

func (l *certLifetimes) terms() (certs.Terms, error) {
	for flag, days := range map[string]int{"days": l.member, "authority-days": l.authority} {
		if days < 1 || days > 100*365 {
			return certs.Terms{}, usageError{fmt.Errorf("invalid --%s %d (want 1 to 36500)", flag, days)}
		}
	}
	const day = 24 * time.Hour
	return certs.Terms{Now: time.Now(), Member: time.Duration(l.member) * day, Authority: time.Duration(l.authority) * day}, nil
}

// reissue changes a directory of certificates and prints what was issued. A lock serializes
// concurrent calls.
func reissue(cmd *cobra.Command, path, done string, change func(certs.Directory) ([]certs.Issued, error)) (err error) {
	unlock, err := lockDirectory(path)
	if err != nil {
		return fmt.Errorf("cannot change certificates: %w", err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	d := certs.Directory(path)
	issued, err := change(d)
	out := cmd.OutOrStdout()
	for _, i := range issued { // also if a later one failed
		fmt.Fprintf(out, "%s %s, valid until %s.\n", done, filepath.Join(path, i.Member.Name), day(i.Leaf.NotAfter))
	}
	if err != nil {
		return err
	}
	a, err := d.Authority()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "The authority is valid until %s. Keep authority.pem off the machines of the members.\n", day(a.Root().NotAfter))
	return err
}

// day formats the end of a certificate.
func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }
