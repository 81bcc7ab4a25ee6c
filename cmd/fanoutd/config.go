package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/internal/yamlfile"
)

const envPrefix = "FANOUTD_"

// variable returns the environment variable of a setting.
func variable(setting string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
}

// kubernetesVariable matches the variables that Kubernetes sets in every pod for a service
// named fanoutd or fanoutd-anything. All other variables with the prefix must be settings.
var kubernetesVariable = regexp.MustCompile(`^FANOUTD_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// load returns the effective configuration: flags override variables, which override the
// file, which overrides the defaults. It returns a usageError with all problems and their
// origins.
func load(flags *pflag.FlagSet, environ []string) (config.Config, error) {
	cfg, locate, err := read(flags, environ)
	if err != nil {
		return config.Config{}, err
	}
	if problems := locate(validate(&cfg)); len(problems) > 0 {
		return config.Config{}, usageError{problems}
	}
	return cfg, nil
}

// read returns the effective configuration before its validation, and a function that sets the origins of
// problems.
func read(flags *pflag.FlagSet, environ []string) (config.Config, func(config.Problems) config.Problems, error) {
	vars := variables(environ)
	cfg, file, err := readFile(flags, vars)
	if err != nil {
		return config.Config{}, nil, usageError{err}
	}
	set := sources(&cfg)
	origins := map[string]string{} // setting to flag or variable, if one sets it
	problems := setVariables(set, vars, origins)
	flags.Visit(func(f *pflag.Flag) {
		if to := set.Lookup(f.Name); to != nil {
			origins[f.Name] = "--" + f.Name
			if err := copyValue(to, f); err != nil {
				problems = append(problems, config.Problem{Origin: "--" + f.Name, Message: err.Error()})
			}
		}
	})
	if len(problems) > 0 {
		return config.Config{}, nil, usageError{problems}
	}
	cfg.Resolve()
	return cfg, func(problems config.Problems) config.Problems { return locate(problems, origins, file) }, nil
}

// validate returns the problems of a configuration. It reads the files whose contents are a part of it.
func validate(cfg *config.Config) config.Problems {
	descriptors := readDescriptors(cfg)
	return slices.Concat(cfg.Problems(), descriptors, readPassword(cfg))
}

// variables returns the FANOUTD_ variables that are not empty.
func variables(environ []string) map[string]string {
	vars := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, envPrefix) && value != "" && !kubernetesVariable.MatchString(name) {
			vars[name] = value
		}
	}
	return vars
}

func readFile(flags *pflag.FlagSet, vars map[string]string) (config.Config, *yamlfile.File, error) {
	path, err := flags.GetString(configFlag)
	if err != nil {
		return config.Config{}, nil, err
	}
	path = cmp.Or(path, vars[variable(configFlag)])
	if path == "" {
		return config.Defaults(), nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return config.Config{}, nil, fmt.Errorf("cannot read configuration: %w", err)
	}
	return config.ReadFile(path, data)
}

func setVariables(set *pflag.FlagSet, vars map[string]string, origins map[string]string) config.Problems {
	var problems config.Problems
	known := map[string]bool{variable(configFlag): true}
	settings := []string{configFlag}
	set.VisitAll(func(f *pflag.Flag) {
		name := variable(f.Name)
		known[name] = true
		settings = append(settings, f.Name)
		value, ok := vars[name]
		if !ok {
			return
		}
		origins[f.Name] = name
		if err := f.Value.Set(value); err != nil {
			problems = append(problems, config.Problem{Origin: name, Message: err.Error()})
		}
	})
	for name := range vars {
		if !known[name] {
			setting := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, envPrefix)), "_", "-")
			problems = append(problems, config.Problem{Origin: name, Message: "unknown setting" + yamlfile.Suggest(setting, settings)})
		}
	}
	slices.SortFunc(problems, func(a, b config.Problem) int { return strings.Compare(a.Origin, b.Origin) })
	return problems
}

// copyValue copies the value of a flag to another flag of the same type.
func copyValue(to, from *pflag.Flag) error {
	if list, ok := from.Value.(pflag.SliceValue); ok {
		return to.Value.(pflag.SliceValue).Replace(list.GetSlice())
	}
	return to.Value.Set(from.Value.String())
}

// locate sets the origin of each problem: a flag, a variable or a position in the file.
func locate(problems config.Problems, origins map[string]string, file *yamlfile.File) config.Problems {
	for i, p := range problems {
		setting, _, _ := strings.Cut(p.Key, "[")
		if origin, ok := origins[setting]; ok {
			problems[i].Origin, problems[i].Key = origin, ""
		}
	}
	if file == nil {
		return problems
	}
	return file.Locate(problems)
}

// readPassword reads etcd-password-file into EtcdPassword.
func readPassword(cfg *config.Config) config.Problems {
	if cfg.EtcdPasswordFile == "" || cfg.EtcdPassword != "" {
		return nil
	}
	password, err := os.ReadFile(cfg.EtcdPasswordFile)
	if err == nil {
		cfg.EtcdPassword = config.Secret(strings.TrimRight(string(password), "\r\n"))
		if cfg.EtcdPassword == "" {
			err = errors.New(cfg.EtcdPasswordFile + " is empty")
		}
	}
	if err != nil {
		return config.Problems{{Key: "etcd-password-file", Message: err.Error()}}
	}
	return nil
}

// readDescriptors reads the descriptor sets of resources whose codec needs one.
func readDescriptors(cfg *config.Config) config.Problems {
	var problems config.Problems
	for i := range cfg.Resources {
		r := &cfg.Resources[i]
		if r.DescriptorSet == "" || !r.HasMessages() {
			continue
		}
		set, err := os.ReadFile(r.DescriptorSet)
		if err != nil {
			problems = append(problems, config.Problem{Key: fmt.Sprintf("resources[%d].descriptor-set", i), Message: err.Error()})
			continue
		}
		r.Descriptors = set
	}
	return problems
}

func configCommand(environ []string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Inspect the configuration",
		Args:  arguments(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			return usageError{errors.New("fanoutd config requires a command: check or print")}
		},
	}
	cmd.AddCommand(configCheckCommand(environ), &cobra.Command{
		Use:   "print",
		Short: "Validate and print the effective configuration",
		Long: `Validate the configuration that results from flags, environment variables, the
configuration file and defaults, and print it as a configuration file. The exit code is 2
if it is invalid. Passwords are not printed.`,
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := load(cmd.Flags(), environ)
			if err != nil {
				return err
			}
			if cfg.EtcdPasswordFile != "" {
				cfg.EtcdPassword = "" // the printed file must not set both
			}
			out, err := yamlfile.Encode(cfg)
			if err != nil {
				return fmt.Errorf("encode the configuration: %w", err)
			}
			_, err = cmd.OutOrStdout().Write(out)
			return err
		},
	})
	return cmd
}
