// Package limits bounds how often each of many ids may do something.
package limits

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits is an allowance for each id. What has not asked for as long as its allowance
// takes to fill again is forgotten. It is safe for concurrent use.
type Limits struct {
	rate  rate.Limit
	burst int

	mu       sync.Mutex
	limiters map[string]*rate.Limiter
	swept    time.Time
}

// New returns allowances of so many in a second, and at once.
func New(perSecond, burst int) *Limits {
	return &Limits{rate: rate.Limit(perSecond), burst: burst, limiters: make(map[string]*rate.Limiter)}
}

// Take takes one off an allowance; if there is none left it returns how long to wait.
func (l *Limits) Take(id string, now time.Time) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep(now)
	limiter := l.limiters[id]
	if limiter == nil {
		limiter = rate.NewLimiter(l.rate, l.burst)
		l.limiters[id] = limiter
	}
	if limiter.AllowN(now, 1) {
		return 0
	}
	return time.Duration((1 - limiter.TokensAt(now)) / float64(l.rate) * float64(time.Second))
}

func (l *Limits) sweep(now time.Time) {
	if now.Sub(l.swept) < time.Minute {
		return
	}
	l.swept = now
	for id, limiter := range l.limiters {
		if limiter.TokensAt(now) >= float64(l.burst) {
			delete(l.limiters, id)
		}
	}
}
