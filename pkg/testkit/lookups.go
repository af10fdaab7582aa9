package testkit

import (
	"context"
	"time"

	"sluice/pkg/postgres"
)

// ClaimLookups claims up to limit look-ups of a source for a minute, whatever they are
// for: lane by lane.
func ClaimLookups(ctx context.Context, s *postgres.Store, now time.Time, owner, source string, limit int) (all []postgres.Lookup, err error) {
	for lane := postgres.LaneHint; lane <= postgres.LaneRetry && len(all) < limit; lane++ {
		some, _, err := s.ClaimLookups(ctx, now, postgres.LookupClaim{Owner: owner, Source: source, Lane: lane, Limit: limit - len(all), Lease: time.Minute})
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}
