package machine

import "slices"

// keptDevices is how many devices that are gone a user's record remembers, the
// newest ones. An app that takes a new device id at every start would otherwise
// make the record grow with every connection; what is lost with the older ones is
// only that a late open of theirs would be rejected.
const keptDevices = 16

// forgetDevice drops the oldest of the devices that are gone, if there are too
// many of them.
func (u *user) forgetDevice() {
	oldest, gone := -1, 0
	for i, ep := range u.endpoints {
		if ep.current != nil || len(ep.stale) > 0 {
			continue
		}
		gone++
		if oldest < 0 || ep.epoch < u.endpoints[oldest].epoch {
			oldest = i
		}
	}
	if gone > keptDevices {
		u.endpoints = slices.Delete(u.endpoints, oldest, oldest+1)
	}
}
