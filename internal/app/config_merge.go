package app

import (
	"fmt"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/structs"
	"github.com/knadh/koanf/v2"
)

// The koanf tags of Config are the keys of the file, with dots between levels.
const (
	keyTag       = "koanf"
	keyDelimiter = "."
)

// merged returns base with the values of the layers in place of its own, those of
// a later layer before those of an earlier one. Values must have been parsed
// already, so that an error is a mistake in the list of settings.
func merged[T any](base T, layers ...map[string]any) (T, error) {
	var result T
	k := koanf.New(keyDelimiter)
	if err := k.Load(structs.Provider(base, keyTag), nil); err != nil {
		return result, fmt.Errorf("take over defaults: %w", err)
	}
	for _, values := range layers {
		if err := k.Load(confmap.Provider(values, keyDelimiter), nil); err != nil {
			return result, fmt.Errorf("merge settings: %w", err)
		}
	}
	if err := k.Unmarshal("", &result); err != nil {
		return result, fmt.Errorf("put settings together: %w", err)
	}
	return result, nil
}

// valuesOf returns the fields of a Config or a ResourceConfig by key.
func valuesOf(config any) map[string]any {
	k := koanf.New(keyDelimiter)
	if err := k.Load(structs.Provider(config, keyTag), nil); err != nil {
		panic(fmt.Sprintf("a provider that only copies fields has failed: %v", err))
	}
	return k.All()
}
