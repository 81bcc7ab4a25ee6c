package scenario

// All are all scenarios.
var All = []Scenario{
	{
		Name: "snapshot", run: snapshot,
		Must: "Replace the copy with the objects of a RESET at its SYNCED, then apply events as they arrive.",
		Why:  "A state is complete only at SYNCED.",
	},
	{
		Name: "reset-cut", run: cutReset,
		Must: "Drop the objects of a RESET that is cut, and resume at the last complete state or without a position.",
		Why:  "Half of a snapshot is not a state.",
	},
	{
		Name: "replay-cut", run: cutReplay,
		Must: "Apply each part of a REPLAY, and resume at the position of the last one.",
		Why:  "A REPLAY has every event, so each of its parts leads to a complete state.",
	},
	{
		Name: "delta-cut", run: cutDelta,
		Must: "Hold the events of a DELTA until SYNCED. If it is cut, drop them and resume where it began.",
		Why:  "The events of a DELTA are later than the position. The next server may not know them.",
	},
	{
		Name: "reset-restarted", run: restartedReset,
		Must: "Drop held events when another catch-up begins.",
		Why:  "The server starts over if it cannot finish a catch-up.",
	},
	{
		Name: "reset-synced", run: resetOfSynced,
		Must: "Remove the objects that a RESET does not have.",
		Why:  "The client has missed their deletion.",
	},
	{
		Name: "delta-unknown", run: deltaOfUnknownKeys,
		Must: "Accept the deletion of keys that the client never had.",
		Why:  "A DELTA reports all deletions since the position.",
	},
	{
		Name: "events-by-key", run: eventsByKey,
		Must: "Apply events by key, whatever their type says about the copy.",
		Why:  "After an interruption, an object may be MODIFIED that the client does not have.",
	},
	{
		Name: "partial", run: partial,
		Must: "Hold partial messages until the last part. If the stream ends before it, drop them and resume before all of them.",
		Why:  "A position never points inside a revision.",
	},
	{
		Name: "partial-drained", run: drainedPartial,
		Must: "Drop partial messages at DRAINING.",
		Why:  "The rest never arrives.",
	},
	{
		Name: "after-draining", run: afterDraining,
		Must: "Ignore messages after DRAINING.",
		Why:  "What was held back is lost, so a SYNCED would complete a copy that lacks it.",
	},
	{
		Name: "latest", run: merged,
		Must: "Apply merged events, which may be partial.",
		Why:  "With DELIVERY_LATEST, a message has several revisions.",
	},
	{
		Name: "unknown-kinds", run: unknownKinds,
		Must: "Treat unknown kinds of messages as LIVE and unknown kinds of catch-ups as REPLAY. Survive unknown types and fields.",
		Why:  "Later versions of the protocol add some.",
	},
	{
		Name: "unknown-entries", run: unknownEntries, subscribeOnly: true,
		Must: "Ignore entries with unknown content or unknown ids.",
		Why:  "Later versions of the protocol add some. An entry may cross with a stop.",
	},
	{
		Name: "absent-values", run: absentValues,
		Must: "Distinguish an absent value from an empty one.",
		Why:  "A server leaves out values that it cannot decrypt.",
	},
	{
		Name: "ages", run: ages,
		Must: "Accept messages with an age.",
		Why:  "A server that has lost etcd serves its last state.",
	},
	{
		Name: "synced", run: syncs, informerOnly: true,
		Must: "Wait for SYNCED and for the calls of the handlers before the informer counts as synced.",
		Why:  "Until then, the copy may lack objects.",
	},
	{
		Name: "stale", run: staleness, informerOnly: true,
		Must: "Count a copy as stale until the server has confirmed it, while the age of the messages is too high, and after three intervals of silence.",
		Why:  "The program may have to stop when it can no longer rely on the copy.",
	},
	{
		Name: "objects", run: wholeObjects,
		Must: "Keep labels, content types and bytes of objects.",
		Why:  "They belong to the object.",
	},
	{
		Name: "handlers", run: handlerCalls, informerOnly: true,
		Must: "Call handlers for every change, also for objects that are missing after a RESET.",
		Why:  "A program that follows calls must reach the same state as the copy.",
	},
	{
		Name: "new-epoch", run: newEpoch,
		Must: "Replace the state when the epoch changes, even if revisions go back.",
		Why:  "etcd was replaced or restored.",
	},
	{
		Name: "lost-position", run: lostPosition,
		Must: "Begin without a position after OUT_OF_RANGE.",
		Why:  "No retry with this position can succeed.",
	},
	{
		Name: "restart", run: restarted, informerOnly: true,
		Must: "Begin with the saved state, and resume at its position.",
		Why:  "The server sends only what has changed meanwhile.",
	},
	{
		Name: "restart-forgotten", run: forgotten, informerOnly: true,
		Must: "Begin without a position if there is no state file.",
		Why:  "A position is useless without the objects.",
	},
	{
		Name: "restart-damaged", run: damaged, informerOnly: true,
		Must: "Detect a damaged state file, begin without it, and write a good one.",
		Why:  "Disks lose data.",
	},
	{
		Name: "restart-other", run: otherWatch, informerOnly: true,
		Must: "Reject the state file of another watch.",
		Why:  "It has other objects.",
	},
	{
		Name: "killed", run: killed, informerOnly: true,
		Must: "Save the objects together with the position.",
		Why:  "A client may be killed at any time.",
	},
	{
		Name: "replaced", run: replaced, informerOnly: true,
		Must: "Write the state to a new file, and replace the old one with it.",
		Why:  "A client may be killed while it writes.",
	},
	{
		Name: "from-now", run: fromNow, watchOnly: true,
		Must: "Begin at the present once. After a lost position, begin with a RESET.",
		Why:  "Another present would skip what has happened meanwhile.",
	},
	{
		Name: "every-event", run: everyEvent, watchOnly: true,
		Must: "Ask for every event, and end a watch that has lost its position.",
		Why:  "The program must decide what to do about the missing events.",
	},
	{
		Name: "selectors", run: selected,
		Must: "Send the selectors with each request of a watch.",
		Why:  "Otherwise the watch gets other objects after an interruption.",
	},
	{
		Name: "token", run: tokens,
		Must: "Send the present token with each request. After a refusal, try the next token once, and end if it is refused, too.",
		Why:  "Tokens expire while watches go on.",
	},
	{
		Name: "endless-delay", run: endless, watchOnly: true,
		Must: "Obey a RetryInfo of more than a minute for one minute.",
		Why:  "A fault of a server must not keep the client away for ever.",
	},
	{
		Name: "backoff", run: growing, watchOnly: true,
		Must: "Let the delays grow with each failure. After a stream that has lasted for 5 s, they are short again.",
		Why:  "A server that comes back slowly must not be overloaded. A server that works again must not be punished.",
	},
	{
		Name: "proxy", run: proxied,
		Must: "End with an error without a reason only if the watch has not worked before.",
		Why:  "Such errors come from proxies, and pass.",
	},
	{
		Name: "keepalive", run: keepalive, watchOnly: true,
		Must: "Ping a silent connection, and open another one if there is no answer.",
		Why:  "With rare bookmarks, a dead connection would go unnoticed for minutes.",
	},
	{
		Name: "storm", run: storm,
		Must: "Wait at least the delay of RetryInfo before the next attempt.",
		Why:  "The server is overloaded, or not ready.",
	},
	{
		Name: "refusals", run: refusals,
		Must: "Wait between attempts, also after errors with unknown reasons.",
		Why:  "Repeated attempts would overload the server further.",
	},
	{
		Name: "final", run: final,
		Must: "Stop a watch after an error that no retry can help, and report its reason. Other watches continue.",
		Why:  "The program must decide how to continue.",
	},
	{
		Name: "drained", run: drained,
		Must: "After resume_at_once, resume at once on another connection.",
		Why:  "The server ends its watches one after another, and accepts no new ones.",
	},
	{
		Name: "limited", run: limited,
		Must: "Resume at the last position after DRAINING, with or without an error.",
		Why:  "Neither is a failure.",
	},
	{
		Name: "silent", run: silent,
		Must: "Treat a server as dead after three bookmark intervals without a message, never after less than two, and open another connection. Wait at least 5 s for the first message of a stream.",
		Why:  "A connection may die without an error. A server may have to read the first message from etcd.",
	},
	{
		Name: "half-open", run: halfOpen,
		Must: "After three intervals of silence, open the next stream on another connection.",
		Why:  "Another stream on a dead connection would be silent, too.",
	},
	{
		Name: "reconnects", run: reconnects,
		Must: "Reconnect after a random delay.",
		Why:  "Clients that lose a server together must not return together.",
	},
	{
		Name: "reconnects-drained", run: reconnectsDrained,
		Must: "After DRAINING without resume_at_once, wait a random fraction of a second.",
		Why:  "The server ends all its watches at the same moment. With resume_at_once, it spreads them itself.",
	},
	{
		Name: "reconnects-storm", run: reconnectsStorm,
		Must: "Add a random delay to that of RetryInfo.",
		Why:  "A server gives all its clients the same delay.",
	},
	{
		Name: "paused", run: paused, watchOnly: true,
		Must: "Read a bounded amount while the application is paused, and let other watches continue.",
		Why:  "The server waits for a slow client at no cost.",
	},
	{
		Name: "stopped", run: stopped,
		Must: "End a watch at the server when the application ends it.",
		Why:  "Otherwise the server keeps it.",
	},
	{
		Name: "reports", run: reported, reports: true,
		Must: "Say at the start of a watch that it reports. Report the applied position, at most once a second.",
		Why:  "Operators wait until a change is applied.",
	},
	{
		Name: "reports-paused", run: pausedReport, reports: true,
		Must: "Do not report updates that the application has not taken.",
		Why:  "A deployment continues when all clients have applied a change.",
	},
	{
		Name: "reports-reconnected", run: reconnectedReport, reports: true,
		Must: "Connect again while the application is busy. Report on the new watch what the application takes of the messages of the old one.",
		Why:  "A deployment does not wait for clients that are not connected.",
	},
	{
		Name: "reports-rejected", run: rejected, reports: true, informerOnly: true,
		Must: "Report the error of the application, the key of the object, and a position before it. Clear the error when the object is accepted.",
		Why:  "A deployment stops when a change is refused.",
	},
	{
		Name: "reports-rejected-many", run: rejectedMany, reports: true, informerOnly: true,
		Must: "Name no failed keys while they are more than 32, and the rest when they are fewer.",
		Why:  "A server refuses reports with more. A deployment of other objects continues if the keys are known.",
	},
	{
		Name: "many", run: many, subscribeOnly: true,
		Must: "Carry all watches on one stream. Each resumes at its own position when the stream is lost.",
		Why:  "A stream costs the server more than a thousand watches of one interest.",
	},
	{
		Name: "stop-crossing", run: crossing, subscribeOnly: true,
		Must: "Ignore entries of a stopped watch until its end, also if its id is in use again.",
		Why:  "They were on their way when the client stopped the watch.",
	},
	{
		Name: "slow-returns", run: back, subscribeOnly: true, watchOnly: true,
		Must: "Move a slow watch off the shared stream, and back when it has caught up.",
		Why:  "A watch that never returns costs the server a stream.",
	},
	{
		Name: "refused-start", run: refusedStart, subscribeOnly: true,
		Must: "Start a refused watch again after the delay of RetryInfo. Other watches continue.",
		Why:  "A refusal concerns one watch.",
	},
}
