package main

import (
	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
)

// sight is who may know what where users' policies leave it open.
type sight struct {
	Contact   *rollcall.Granularity `placeholder:"GRANULARITY" help:"How much contacts may know of users who leave it open: exact, coarse, hidden or absent (default: exact)."`
	Member    *rollcall.Granularity `placeholder:"GRANULARITY" help:"How much those may know who share a group (default: exact)."`
	Everyone  *rollcall.Granularity `placeholder:"GRANULARITY" help:"How much all others may know (default: exact)."`
	AskSights bool                  `help:"Ask the application over NATS who may know what; without an answer viewers see unknown (default: users' policies decide)."`
}

func (s sight) relations() subjects.Relations {
	return subjects.Relations{Contact: s.Contact, Member: s.Member, Everyone: s.Everyone}
}
