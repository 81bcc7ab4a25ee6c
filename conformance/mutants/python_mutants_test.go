package mutants

var pythonMutants = []mutant{
	// The slow ones come first.
	{
		name: "obeys endless delays", file: "fanoutd/delays.py",
		old:      "min(why.retry_after, MAX_RETRY_AFTER) if",
		new:      "why.retry_after if",
		scenario: "endless-delay", variant: watches, patience: longestDelay,
		want: "the client comes back although RetryInfo says a year: context deadline exceeded",
	},
	{
		name: "never pings", file: "fanoutd/connection.py",
		old:      `"grpc.keepalive_time_ms": 15_000,`,
		new:      `"grpc.keepalive_time_ms": 2_000_000_000,`,
		scenario: "keepalive", variant: watches, patience: longestPing,
		want: "the client pings, and opens watch a on another connection: context deadline exceeded",
	},
	{
		name: "counts as synced at once", file: "fanoutd/local_copy.py",
		old:      "await self.wait(lambda: self._has_fresh)\n",
		new:      "return\n",
		scenario: "synced", variant: informers, want: "counts as synced or as not stale, and the server has sent no SYNCED",
	},
	{
		name: "is never stale", file: "fanoutd/local_copy.py",
		old:      "        if self._ended is not None or self._as_of is None or",
		new:      "        return False\n        if self._ended is not None or self._as_of is None or",
		scenario: "stale", variant: informers, want: "counts as synced or as not stale, and the server has sent no SYNCED",
	},
	{
		name: "ignores ages", file: "fanoutd/watcher.py",
		old:      "confirmed = m.arrived - (content.age.seconds + content.age.nanos / 1e9)",
		new:      "confirmed = m.arrived",
		scenario: "stale", variant: informers, want: "the copy a is stale because of the age of the messages: context deadline exceeded",
	},
	{
		name: "drops labels and content types", file: "fanoutd/objects.py",
		old:      "o.key, value, o.content_type, dict(o.labels),",
		new:      `o.key, value, "", {},`,
		scenario: "objects", variant: watches, want: "watch a shows map[",
	},
	{
		name: "takes bytes for text", file: "fanoutd/objects.py",
		old:      "        value = o.data\n",
		new:      "        value = o.data.decode(\"utf-8\", \"replace\")\n",
		scenario: "objects", variant: watches, want: "watch a shows map[",
	},
	{
		name: "hides deletions from handlers", file: "fanoutd/handler_loop.py",
		old:      "if p.old is not new:",
		new:      "if p.old is not new and new is not None:",
		scenario: "handlers", variant: informers, want: "the handler gets the changes: context deadline exceeded",
	},
	{
		name: "writes into its state file", file: "fanoutd/state_file.py",
		old:      "os.replace(fresh, path)",
		new:      "path.write_bytes(content)",
		scenario: "replaced", variant: informers, want: "the client writes into its state file",
	},
	{
		name: "never shares a stream again", file: "fanoutd/watcher.py",
		old:      "if content.kind == _RESPONSE.KIND_BOOKMARK and self._may_move():",
		new:      "if False:",
		scenario: "slow-returns", variant: streams, want: "the client opens watch slow: context deadline exceeded",
	},
	{
		name: "trusts proxies", file: "fanoutd/watcher.py",
		old:      "return e.code in _FINAL and (e.reason is not None or not self._proven)",
		new:      "return e.code in _FINAL",
		scenario: "proxy", variant: watches, want: "watch a is failed",
	},
	{
		name: "never waits longer", file: "fanoutd/backoff.py",
		old:      "self._retries += 1",
		new:      "self._retries += 0",
		scenario: "backoff", variant: watches, want: "the mean delay of many clients is",
	},
	{
		name: "never waits shorter again", file: "fanoutd/backoff.py",
		old:      "        \"\"\"Make the next delay as short as the first one.\"\"\"\n        self._retries = 0\n",
		new:      "        pass\n",
		scenario: "backoff", variant: watches, want: "after streams that have lasted",
	},
	{
		name: "keeps what a reset lacks", file: "fanoutd/assembly.py",
		old:      "u.replace = notable = True",
		new:      "notable = True",
		scenario: "reset-synced", variant: watches, want: "watch a shows map[",
	},
	{
		name: "applies a delta as it comes", file: "fanoutd/assembly.py",
		old:      "if self._held and (m.partial or self.catch_up == _DELTA):",
		new:      "if self._held and m.partial:",
		scenario: "delta-cut", variant: watches, want: " shows map[",
	},
	{
		name: "applies parts of a revision", file: "fanoutd/assembly.py",
		old:      "if self._held and (m.partial or self.catch_up == _DELTA):",
		new:      "if self._held and self.catch_up == _DELTA:",
		scenario: "partial", variant: watches, want: " shows map[",
	},
	{
		name: "keeps a lost position", file: "fanoutd/watcher.py",
		old:      "            self._assembler.drop_position()\n            self._forget_options()\n            return False\n",
		new:      "            return False\n",
		scenario: "lost-position", variant: watches, want: "want one of [<nil>]",
	},
	{
		name: "retries final errors", file: "fanoutd/watcher.py",
		old:      "return e.code in _FINAL and (",
		new:      "return False and (",
		scenario: "final", variant: watches, want: "is failed: context deadline exceeded",
	},
	{
		name: "ignores RetryInfo", file: "fanoutd/delays.py",
		old:      "        return least + self._backoff.next()\n",
		new:      "        return self._backoff.next()\n",
		scenario: "storm", variant: watches, want: "and RetryInfo says 700ms",
	},
	{
		name: "stays on a silent connection", file: "fanoutd/own_stream.py",
		old:      "            self._servers.failed(self._connection)\n        self.close()\n",
		new:      "            pass\n        self.close()\n",
		scenario: "half-open", variant: watches, want: "on another connection after a silence: context deadline exceeded",
	},
}
