package cohort

// hooks let tests see, and end, a member in the middle of what it does.
type hooks struct {
	write func(key string, stored bool) // before, and after, every write
	begin func(op) (end func(offset uint64, err error))
}

// An op is a partition taken over, or a commit.
type op struct {
	Claim              bool
	Partition          int
	Conn               string
	Generation, Offset uint64
}

func (h hooks) op(o op) func(offset uint64, err error) {
	if h.begin == nil {
		return func(uint64, error) {}
	}
	return h.begin(o)
}
