package daemon

import (
	"fmt"
	"io"
	"log/slog"
)

// LogConfig says how to log.
type LogConfig struct {
	// Format is "json" or "text".
	Format string `env:"SLUICE_LOG_FORMAT" envDefault:"json" help:"json or text"`
	// Level is debug, info, warn or error.
	Level slog.Level `env:"SLUICE_LOG_LEVEL" envDefault:"info" help:"debug, info, warn or error"`
}

// NewLog logs to w as cfg says.
func NewLog(cfg LogConfig, w io.Writer) (*slog.Logger, error) {
	opts := &slog.HandlerOptions{Level: cfg.Level}
	switch cfg.Format {
	case "json", "":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	case "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	}
	return nil, fmt.Errorf("SLUICE_LOG_FORMAT is %q; it must be json or text", cfg.Format)
}
