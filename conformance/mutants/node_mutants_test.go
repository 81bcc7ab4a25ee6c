package mutants

var nodeMutants = []mutant{
	{
		name: "keeps parts of a revision when the server drains", file: "src/assembler.js",
		old:      "this.#drop(); // the rest of it does not come",
		new:      "",
		scenario: "partial-drained", variant: watches, want: "watch a",
	},
	{
		name: "holds back catch-ups of unknown kinds", file: "src/assembler.js",
		old:      "const held = this.#catchUp === CatchUp.RESET || this.#catchUp === CatchUp.DELTA;",
		new:      "const held = this.#catchUp !== CatchUp.UNSPECIFIED && this.#catchUp !== CatchUp.REPLAY;",
		scenario: "unknown-kinds", variant: watches, want: "watch a shows the state at",
	},
	{
		name: "keeps half of a reset", file: "src/assembler.js",
		old:      "this.#catchUp = message.catchUp;\n                this.#drop();",
		new:      "this.#catchUp = message.catchUp;",
		scenario: "reset-restarted", variant: watches, want: "watch a shows map[",
	},
	{
		name: "uses an id again at once", file: "src/shared_stream.js",
		old:      "this.#watches.set(watchId, undefined);",
		new:      "this.#watches.delete(watchId);\n                this.#free.push(watchId);",
		scenario: "stop-crossing", variant: streams, want: "watch b",
	},
	{
		name: "begins at the present again", file: "src/watcher.js",
		old:      "else if (fromNow && !this.#lostPosition) {",
		new:      "else if (fromNow) {",
		scenario: "from-now", variant: watches, want: "begins at the present, although it needs the state",
	},
	{
		name: "goes on after missing events", file: "src/watcher.js",
		old:      "if (this.#settings.everyEvent || (!this.#position && !slow))",
		new:      "if (!this.#position && !slow)",
		scenario: "every-event", variant: watches, want: "is failed: context deadline exceeded",
	},
	{
		name: "takes the reasons of others for its own", file: "src/errors.js",
		old:      "if (info?.domain === domain)",
		new:      "if (info && domain)",
		scenario: "proxy", variant: watches, want: "watch a is failed",
	},
	{
		name: "saves no labels", file: "src/state_file.js",
		old:      "labels: { ...labels }",
		new:      "labels: { ...(labels && {}) }",
		scenario: "restart", variant: informers, want: "watch a shows map[",
	},
	{
		name: "ignores the sum of its state file", file: "src/state_file.js",
		old:      ".equals(content.subarray(end))",
		new:      ".subarray(end)",
		scenario: "restart-damaged", variant: informers, want: "watch a",
	},
	{
		name: "compares versions by their revision", file: "src/item.js",
		old:      "sameValue(a.value, b.value) &&",
		new:      "(true || sameValue(a.value, b.value)) &&",
		scenario: "new-epoch", variant: informers, want: "watch a shows map[",
	},
	{
		name: "reports too often", file: "src/reporter.js",
		old:      "const interval = 1000;",
		new:      "const interval = 100;",
		scenario: "reports", variant: watches, want: "reports within",
	},
	{
		name: "waits equally long each time", file: "src/backoff.js",
		old:      "+ Math.random() * this.#limit;",
		new:      "+ this.#limit;",
		scenario: "reconnects", variant: watches, want: "the middle half of many clients returns within",
	},
}
