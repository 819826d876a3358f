package app

import (
	"context"
	"slices"
	"time"

	"github.com/capiloop/capiloop/internal/store"
)

// keysEvery is how soon a node knows of an API key that was made at another.
const keysEvery = 3 * time.Second

// followKeys puts API keys in force that another node of the same database has made.
// SQLite has one process, whose keys are in force at once.
func (a *App) followKeys(ctx context.Context) {
	var known []store.APIKey // nil at first: what was made while we started counts too
	failed := false
	for a.o.Clock.Sleep(ctx, a.o.Clock.Scale(keysEvery)) == nil {
		keys, err := a.store.APIKeys(ctx)
		if err == nil && !slices.Equal(keys, known) {
			if err = a.reload(ctx); err == nil {
				known = keys
			}
		}
		if err != nil && !failed && ctx.Err() == nil { // said once per trouble
			a.log.Error("the API keys of other nodes could not be read; it is tried again", "error", err)
		}
		failed = err != nil
	}
}
