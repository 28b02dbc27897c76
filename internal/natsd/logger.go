package natsd

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// A logger hands the server's messages on and keeps the first fatal one, which is
// the server's only way to say that it did not start.
type logger struct {
	log         *slog.Logger
	pageRefused func(reason string)

	mu    sync.Mutex
	first error
}

// Noticef is for the server's start banner and the like; nobody needs it usually.
func (l *logger) Noticef(format string, v ...any) { l.write(slog.LevelDebug, format, v) }
func (l *logger) Warnf(format string, v ...any)   { l.write(slog.LevelWarn, format, v) }
func (l *logger) Debugf(format string, v ...any)  { l.write(slog.LevelDebug, format, v) }
func (l *logger) Tracef(format string, v ...any)  { l.write(slog.LevelDebug, format, v) }

// Errorf also finds the pages that are not let in, which nats-server tells in no other
// way.
func (l *logger) Errorf(format string, v ...any) {
	l.write(slog.LevelError, format, v)
	const refused = "origin not allowed"
	if l.pageRefused != nil && strings.Contains(format, refused) {
		l.pageRefused(fmt.Sprintf(format, v...))
	}
}

func (l *logger) Fatalf(format string, v ...any) {
	l.write(slog.LevelError, format, v)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == nil {
		l.first = fmt.Errorf(format, v...)
	}
}

func (l *logger) fatal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first
}

func (l *logger) write(level slog.Level, format string, v []any) {
	ctx := context.Background()
	if l.log.Enabled(ctx, level) {
		l.log.Log(ctx, level, fmt.Sprintf(format, v...), "from", "nats-server")
	}
}
