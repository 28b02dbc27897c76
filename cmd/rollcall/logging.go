package main

import (
	"log/slog"
)

// logging is how a command that runs for long says what happens. It never says anything
// of single heartbeats, requests or changes.
type logging struct {
	LogLevel  string `enum:"debug,info,warn,error," default:"" placeholder:"LEVEL" help:"Least level of what is logged: debug, info, warn or error."`
	LogFormat string `enum:"text,json" default:"text" help:"How log lines are written: text or json (default ${default})."`
	Verbose   bool   `short:"v" help:"The same as --log-level debug."`
}

// logger writes lines of the level that was asked for, or else the usual one, and above.
func (l logging) logger(std console, usual slog.Level) *slog.Logger {
	if l.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(std.err, &slog.HandlerOptions{Level: l.level(usual)}))
	}
	return std.logger(l.level(usual))
}

func (l logging) level(usual slog.Level) slog.Level {
	if l.Verbose {
		return slog.LevelDebug
	}
	if l.LogLevel != "" && usual.UnmarshalText([]byte(l.LogLevel)) != nil {
		panic("the levels of the flag are those of package slog")
	}
	return usual
}
