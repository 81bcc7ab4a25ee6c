package app

import (
	"reflect"
	"testing"

	"github.com/fanoutd/fanoutd/internal/config"
)

// Every limit of the server is the setting of its name. A limit that is not copied from the configuration
// would have no effect.
func TestEveryLimitComesFromItsSetting(t *testing.T) {
	var cfg config.Config
	settings := reflect.ValueOf(&cfg).Elem()
	for i := range settings.NumField() {
		switch f := settings.Field(i); {
		case f.CanInt():
			f.SetInt(int64(i + 1))
		case f.CanFloat():
			f.SetFloat(float64(i + 1))
		}
	}
	connections := connectionLimits{total: cfg.MaxConnections, perClient: cfg.MaxConnectionsPerClient, operators: 1000}
	otherName := map[string]string{"ListBytes": "MaxListMemory", "RequestBytes": "MaxRequestSize"}
	got := limits(cfg, connections)
	for field, value := range reflect.ValueOf(got).Fields() {
		if field.Name == "OperatorConnections" { // it follows from other settings; see limitConnections
			continue
		}
		name := otherName[field.Name]
		if name == "" {
			name = "Max" + field.Name
		}
		setting := settings.FieldByName(name)
		if !setting.IsValid() {
			t.Errorf("no setting is called %s", name)
		} else if want := setting.Convert(value.Type()); value.IsZero() || !value.Equal(want) {
			t.Errorf("%s is %v, want %v, the value of %s", field.Name, value, want, name)
		}
	}
	if got.OperatorConnections != connections.operators {
		t.Errorf("OperatorConnections is %d, want %d", got.OperatorConnections, connections.operators)
	}
}
