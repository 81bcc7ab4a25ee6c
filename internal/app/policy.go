package app

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/reload"
)

// policyFile is a policy that is changed while the server runs.
type policyFile struct {
	file   *reload.File
	policy *policy.Policy       // the newest
	use    func(*policy.Policy) // puts it into use; of the goroutine of run, nil before
}

func loadPolicy(path string, log *slog.Logger) (*policyFile, error) {
	f := &policyFile{}
	read := func(content []byte) error {
		p, err := policy.Parse(path, content)
		if err != nil {
			return err
		}
		if f.policy = p; f.use != nil {
			f.use(p)
		}
		return nil
	}
	var err error
	if f.file, err = reload.Load(path, log, read); err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	return f, nil
}

// latest returns the policy, or nil where there is no file.
func (f *policyFile) latest() *policy.Policy {
	if f == nil {
		return nil
	}
	return f.policy
}

// run follows the file until ctx is done and calls use with each new policy.
func (f *policyFile) run(ctx context.Context, use func(*policy.Policy)) {
	f.use = use
	f.file.Run(ctx)
}
