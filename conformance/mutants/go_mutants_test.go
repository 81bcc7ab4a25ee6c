package mutants

var goMutants = []mutant{
	{
		name: "forgets what a busy handler has", file: "step.go",
		old:      "c.old, c.since = earlier.old, earlier.since",
		new:      "c.since = earlier.since",
		scenario: "handlers", variant: informers, want: "the handler of a gets",
	},
	{
		name: "uses an id again at once", file: "shared_stream.go",
		old:      "s.request(w) // the id stays in use until the server has ended the watch",
		new:      "s.request(w)\n\t\ts.release(w)",
		scenario: "stop-crossing", variant: streams, want: "watch b shows",
	},
	{
		name: "keeps half of a reset", file: "object_state.go",
		old:      "s.replacing, s.replacement = true, btree.Map[string, *Object]{}\n\t}\n\tfor i",
		new:      "s.replacing = true\n\t}\n\tfor i",
		scenario: "reset-restarted", variant: informers, want: "watch a shows map[",
	},
	{
		name: "trusts old confirmations", file: "freshness.go",
		old:      " || time.Since(asOf) > f.limit",
		new:      "",
		scenario: "stale", variant: informers, want: "the copy a is stale because of the age of the messages: context deadline exceeded",
	},
	{
		name: "reports too often", file: "report.go",
		old:      "const reportInterval = time.Second",
		new:      "const reportInterval = time.Second / 10",
		scenario: "reports", variant: watches, want: "reports within",
	},
	{
		name: "forgets that an earlier version was refused", file: "progress.go",
		old:      "\t\tfailed.before = earlier.before\n",
		new:      "\t\t_ = earlier\n",
		scenario: "reports-rejected", variant: informers, want: "and its application rejects revision",
	},
	{
		name: "saves no labels", file: "last_known_good.go",
		old:      "Labels: o.Labels, Opaque: o.Opaque,",
		new:      "Opaque: o.Opaque,",
		scenario: "restart", variant: informers, want: "watch a shows map[",
	},
	{
		name: "compares versions by their revision", file: "state.go",
		old:      "a.ContentType == b.ContentType && a.Opaque == b.Opaque && bytes.Equal(a.Value, b.Value) && maps.Equal(a.Labels, b.Labels)",
		new:      "(true || bytes.Equal(a.Value, b.Value) && maps.Equal(a.Labels, b.Labels))",
		scenario: "new-epoch", variant: informers, want: "watch a shows map[",
	},
	{
		name: "begins at the present again", file: "watcher.go",
		old:      "w.at, w.fromNow = Position{}, false",
		new:      "w.at = Position{}",
		scenario: "from-now", variant: watches, want: "begins at the present, although it needs the state",
	},
	{
		name: "waits equally long each time", file: "backoff.go",
		old:      "return rand.N(limit + 1)",
		new:      "return max(limit, rand.N(limit+1))",
		scenario: "reconnects", variant: watches, want: "the middle half of many clients returns within",
	},
	{
		name: "tries refused credentials for ever", file: "watcher.go",
		old:      "\t\tw.refused = true\n",
		new:      "",
		scenario: "token", variant: watches, want: "is failed: context deadline exceeded",
	},
	{
		name: "takes the reasons of others for its own", file: "errors.go",
		old:      "if d.GetDomain() == errorDomain {",
		new:      "if d.GetDomain() != \"\" {",
		scenario: "proxy", variant: watches, want: "watch a is failed",
	},
}
