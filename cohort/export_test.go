package cohort

// Op is what a test of fencing observes.
type Op = op

// WithHooks returns a configuration whose member can be observed, and ended, in the middle of what it does.
func WithHooks(c Config, write func(key string, stored bool), begin func(Op) (end func(offset uint64, err error))) Config {
	c.hooks = hooks{write, begin}
	return c
}
