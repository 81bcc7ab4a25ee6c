package capacity

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// Assumptions of the document.
var assumed = Load{PerConnection: 1, TLS: true, Events: 1, EventBytes: 308, Changes: 10, State: 100, Snapshot: 0.2}

// nodes are the machines of the document.
var nodes = []Node{
	{Cores: 2, Memory: 8, Network: 5},
	{Cores: 8, Memory: 32, Network: 10},
	{Cores: 32, Memory: 128, Network: 25},
}

const zones = 3

func (n Node) String() string {
	return fmt.Sprintf("%d cores, %v GiB, %v Gbit/s", n.Cores, n.Memory, n.Network)
}

// Sections returns the generated sections of the document and the results of the simulation.
// It is deterministic for given constants and seed.
func Sections(c *Constants, seed uint64) ([]Section, []Result, error) {
	results, err := simulateAll(c, seed)
	if err != nil {
		return nil, nil, err
	}
	return []Section{
		{"constants", constantsTable(c)},
		{"nodes", nodesTable(c)},
		{"fleets", fleetsTable(c)},
		{"etcd", etcdTable(c)},
		{"incidents", incidentsTable(c, results)},
	}, results, nil
}

func constantsTable(c *Constants) string {
	var rows [][]string
	for name, one := range c.all {
		from := "measured"
		if !one.Measured {
			from = "**to be measured**, is from " + one.From
		}
		rows = append(rows, []string{"`" + name + "`", one.What, fmt.Sprint(one.Value), one.Unit, "`" + one.Command + "`", from})
	}
	return table([]string{"constant", "what", "value:", "unit", "what measures it", "value is"}, rows)
}

func nodesTable(c *Constants) string {
	var rows [][]string
	for _, n := range nodes {
		for _, perConnection := range []int{1, together} {
			row := []string{n.String(), fmt.Sprint(perConnection)}
			for _, events := range []float64{0.1, 1, 10} {
				l := assumed
				l.PerConnection, l.Events = perConnection, events
				held, bound := c.NodeCapacity(n, l).Watches()
				row = append(row, about(held)+" ("+bound+")")
			}
			rows = append(rows, row)
		}
	}
	return table([]string{"node", "watches on a connection:", "0.1 events/s for each:", "1 event/s for each:", "10 events/s for each:"}, rows)
}

// planned returns the fleets of the document.
func planned(c *Constants) []Fleet {
	var all []Fleet
	for _, watches := range []int{1_000_000, 100_000_000} {
		for _, perConnection := range []int{1, together} {
			for _, n := range nodes[1:] {
				l := assumed
				l.PerConnection = perConnection
				held, _ := c.NodeCapacity(n, l).Watches()
				all = append(all, Fleet{
					Load: l, Node: n, Watches: watches, Replicas: Replicas(watches, held, zones), Zones: zones,
					Balance: Least, Restart: 30 * time.Second,
				})
			}
		}
	}
	return all
}

func fleetsTable(c *Constants) string {
	var rows [][]string
	for _, f := range planned(c) {
		perServer := f.connections() / f.Replicas
		// Every connection is replaced once in the time limit of a watch, at 90 % of it on
		// average.
		renewals := float64(perServer) / (0.9 * 3600)
		rows = append(rows, []string{
			count(f.Watches), fmt.Sprint(f.PerConnection), f.Node.String(), count(f.Replicas),
			about(f.Watches / f.Replicas), about(perServer), fmt.Sprintf("%.1f", renewals),
			fmt.Sprintf("%.1f %%", 100*renewals*(c.connectCPU(f.Load)+float64(f.PerConnection)*c.Watch.Value/1e6)/float64(f.Cores)),
			fmt.Sprintf("%.2g", float64(f.Replicas)*f.Changes*c.EtcdDelivery.Value/1e6),
			fmt.Sprintf("%.2g", float64(f.Replicas)*f.Changes*f.EventBytes*8/1e6),
		})
	}
	return table([]string{
		"watches:", "on a connection:", "node", "servers:", "watches each:", "connections each:",
		"connections/s each:", "processors for them:", "cores of etcd:", "Mbit/s from etcd:",
	}, rows)
}

func etcdTable(c *Constants) string {
	var rows [][]string
	for _, changes := range []float64{100, 1000, 10_000} {
		replicas := int(c.EtcdDeliveries.Value / 2 / changes)
		row := []string{fmt.Sprint(changes), about(replicas)}
		for _, perConnection := range []int{1, together} {
			l := assumed
			l.PerConnection = perConnection
			held, _ := c.NodeCapacity(nodes[1], l).Watches()
			row = append(row, about(int(float64(replicas)*float64(held)*(zones-1)/zones/1e6))+" million")
		}
		rows = append(rows, row)
	}
	return table([]string{"changes/s:", "servers over one etcd:", "watches on servers of 8 cores, 1 on a connection:", "100 on a connection:"}, rows)
}

// Case is a simulated case of the document.
type Case struct {
	Name      string
	Fleet     Fleet
	Incidents []string
}

// Cases returns the simulated cases of the document.
func Cases(c *Constants) []Case {
	n := nodes[1]
	with := func(watches, perConnection, replicas, hosts int, balance string) Fleet {
		l := assumed
		l.PerConnection = perConnection
		held, _ := c.NodeCapacity(n, l).Watches()
		if replicas == 0 {
			replicas = Replicas(watches, held, zones)
		}
		return Fleet{
			Load: l, Node: n, Watches: watches, Replicas: replicas, Zones: zones, Hosts: hosts,
			Balance: balance, Restart: 30 * time.Second,
		}
	}
	return []Case{
		{"100,000 watches, one on a connection", with(100_000, 1, 3, 0, Least), Incidents()},
		{"the same, spread at random", with(100_000, 1, 3, 0, Random), []string{"kill", "rolling"}},
		{"the same, behind 10 addresses", with(100_000, 1, 3, 10, Least), []string{"kill", "rolling", "outage"}},
		{"a million watches, one on a connection", with(1_000_000, 1, 0, 0, Least), []string{"kill", "rolling", "zone", "restore"}},
		{"100 million watches, 100 on a connection", with(100_000_000, together, 0, 0, Least), []string{"kill", "zone", "restore"}},
	}
}

// simulateAll simulates all cases and returns their results in order.
func simulateAll(c *Constants, seed uint64) ([]Result, error) {
	var results []Result
	var group errgroup.Group
	group.SetLimit(2) // each simulation needs some hundred megabytes
	cases := Cases(c)
	for _, one := range cases {
		for range one.Incidents {
			results = append(results, Result{})
		}
	}
	i := 0
	for _, one := range cases {
		for _, name := range one.Incidents {
			index := i
			i++
			group.Go(func() error {
				r, err := Simulate(c, one.Fleet, name, seed)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", one.Name, name, err)
				}
				results[index] = r
				return nil
			})
		}
	}
	return results, group.Wait()
}

func incidentsTable(c *Constants, results []Result) string {
	var text strings.Builder
	i := 0
	for _, one := range Cases(c) {
		f := one.Fleet
		hosts := "an address each"
		if f.Hosts > 0 {
			hosts = fmt.Sprintf("%d addresses", f.Hosts)
		}
		text.WriteString(fmt.Sprintf("\n**%s**: %d servers of %s; %s; balanced: %s\n", one.Name, f.Replicas, f.Node, hosts, f.Balance))
		n := i + len(one.Incidents)
		text.WriteString(ResultTable(results[i:n]))
		i = n
	}
	return text.String()
}

// ResultTable returns results as a table.
func ResultTable(results []Result) string {
	var rows [][]string
	for _, r := range results {
		lost := ""
		if r.Lost > 0 {
			lost = ", " + count(r.Lost) + " lost"
		}
		rows = append(rows, []string{
			r.Incident, count(r.Interruptions) + lost, short(r.Half), short(r.Most), short(r.Longest), short(r.Back),
			share(r.Snapshots, r.Interruptions), share(r.Differences, r.Interruptions), count(r.Failures + r.Refusals),
			count(r.Connects), fmt.Sprintf("%.0f %%", 100*r.Processors), strconv.FormatFloat(r.Memory/gib, 'f', 1, 64),
			count(r.Peak), fmt.Sprintf("%.2f", r.Spread),
		})
	}
	return table([]string{
		"incident", "interruptions:", "half:", "99 %:", "longest:", "over after:", "snapshots:", "differences:", "failed attempts:",
		"connections/s:", "processors:", "GiB:", "connections:", "uneven:",
	}, rows)
}

func short(d time.Duration) string {
	if d >= 10*time.Second {
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

func share(n, of int) string {
	if n == 0 || of == 0 {
		return "none"
	}
	return fmt.Sprintf("%.3g %%", 100*float64(n)/float64(of))
}
