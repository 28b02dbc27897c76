package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// traced is where a command sends traces, if anywhere.
type traced struct {
	OTLP       string  `name:"otlp" env:"OTEL_EXPORTER_OTLP_ENDPOINT" placeholder:"URL" help:"Where traces are sent, by OTLP over HTTP, such as http://127.0.0.1:4318 (default: nowhere)."`
	TraceRatio float64 `default:"0.01" placeholder:"SHARE" help:"Which share of changes of users begins a trace, from 0 to 1 (default ${default}); edges decide."`
}

// provider makes spans that are sent in batches; nil if they are sent nowhere. stop sends what is left.
func (c traced) provider(ctx context.Context, role string, log *slog.Logger) (p trace.TracerProvider, stop func(), err error) {
	if c.OTLP == "" {
		return nil, func() {}, nil
	}
	if c.TraceRatio < 0 || c.TraceRatio > 1 {
		return nil, nil, fmt.Errorf("%w: --trace-ratio must be from 0 to 1", errUsage)
	}
	base, err := url.Parse(c.OTLP)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, nil, fmt.Errorf("%w: --otlp %s: it must be a URL such as http://127.0.0.1:4318", errUsage, c.OTLP)
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(base.JoinPath("v1", "traces").String()))
	if err != nil {
		return nil, nil, fmt.Errorf("%w: --otlp: %w", errUsage, err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces are not sent", "err", err) }))
	host, _ := os.Hostname()
	sdk := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(c.TraceRatio))),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.namespace", "rollcall"), attribute.String("service.name", "rollcall-"+role),
			attribute.String("service.instance.id", fmt.Sprintf("%s-%d", host, os.Getpid())), attribute.String("host.name", host))),
	)
	return sdk, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if err := sdk.Shutdown(ctx); err != nil {
			log.Warn("the last traces were not sent", "err", err)
		}
	}, nil
}
