package object

// Consistency is how fresh a read has to be. The zero value is linearizable: the read sees every
// write that was acknowledged before it began.
type Consistency struct {
	Level    ConsistencyLevel
	Revision Revision // with AtLeast and Exactly
}

// ConsistencyLevel is a kind of Consistency.
type ConsistencyLevel uint8

// The levels.
const (
	Linearizable ConsistencyLevel = iota
	AnyRevision                   // what is there: the read neither waits nor asks the store
	AtLeast                       // the revision or any later one
	Exactly                       // the revision
)
