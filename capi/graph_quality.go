package capi

import (
	"context"
	"net/url"
)

// EventQuality is what Meta says about the web events of one name. Percentages
// are nil where Meta tells none, as for events of low volume. Page "Dataset
// Quality API".
type EventQuality struct {
	EventName            string
	Score                *float64 // event match quality, 0 to 10
	MatchKeys            []MatchKeyQuality
	Diagnostics          []Diagnostic
	Coverage             *float64 // share of browser events that the server sent too
	CoverageGoal         *float64
	CoverageDescription  string
	DedupeKeys           []DedupeKey
	UploadFrequency      string // real_time, hourly, … weekly
	FreshnessDescription string
	AdditionalReported   *float64 // acr: conversions reported more, last 7 days
	PotentialIncrease    *float64 // event_potential_aly_acr_increase
}

// MatchKeyQuality is how often a match key came, by Meta's long names (email,
// ip_address, user_agent).
type MatchKeyQuality struct {
	Identifier        string
	Coverage          *float64
	PotentialIncrease *float64
}

// Diagnostic is a fault that Meta sees in the events.
type Diagnostic struct {
	Name           string
	Description    string
	Solution       string
	Percentage     *float64
	AffectedEvents int
	TotalEvents    int
}

// DedupeKey is how often a key for deduplication came from either side.
type DedupeKey struct {
	Key            string // event_id, external_id, fbp
	Browser        *float64
	Server         *float64
	BrowserOverall *float64
}

// qualityTiers: the field table calls it dedup_key_feedback, every example and
// Meta's library dedupe_key_feedback.
var qualityTiers = []string{
	"web{event_name,event_match_quality,event_coverage,dedupe_key_feedback,data_freshness,acr,event_potential_aly_acr_increase}",
	"web{event_name,event_match_quality,event_coverage,dedup_key_feedback,data_freshness,acr}",
	"web{event_name,event_match_quality}",
}

// DatasetQuality reads the quality of a dataset's web events. agentName limits it
// to the events of one partner agent, if given. A token that may send may be
// refused here: treat an error as "not known".
func (r *Reader) DatasetQuality(ctx context.Context, datasetID, agentName string) ([]EventQuality, error) {
	if !isGraphID(datasetID) {
		return nil, refusedHere("the dataset's id is not a number")
	}
	query := url.Values{"dataset_id": {datasetID}}
	if agentName != "" {
		query.Set("agent_name", agentName)
	}
	o, err := r.getTiers(ctx, "dataset_quality", query, qualityTiers)
	if err != nil {
		return nil, err
	}
	var list []EventQuality
	for _, web := range o.objects("web") {
		list = append(list, qualityOf(web))
	}
	return list, nil
}

func qualityOf(o fields) EventQuality {
	match, coverage, fresh := o.object("event_match_quality"), o.object("event_coverage"), o.object("data_freshness")
	q := EventQuality{
		EventName: o.text("event_name"), Score: match.share("composite_score"),
		Coverage: coverage.share("percentage"), CoverageGoal: coverage.share("goal_percentage"),
		CoverageDescription: coverage.text("description"),
		UploadFrequency:     fresh.text("upload_frequency"), FreshnessDescription: fresh.text("description"),
		AdditionalReported: o.share("acr"), PotentialIncrease: o.share("event_potential_aly_acr_increase"),
	}
	for _, k := range match.objects("match_key_feedback") {
		q.MatchKeys = append(q.MatchKeys, MatchKeyQuality{
			k.text("identifier"), k.share("coverage"), k.share("potential_aly_acr_increase"),
		})
	}
	for _, d := range match.objects("diagnostics") {
		q.Diagnostics = append(q.Diagnostics, Diagnostic{
			Name: d.text("name"), Description: d.text("description"), Solution: d.text("solution"),
			Percentage: d.share("percentage"), AffectedEvents: d.integer("affected_event_count"),
			TotalEvents: d.integer("total_event_count"),
		})
	}
	keys := o.objects("dedupe_key_feedback")
	if len(keys) == 0 {
		keys = o.objects("dedup_key_feedback")
	}
	for _, k := range keys {
		q.DedupeKeys = append(q.DedupeKeys, DedupeKey{
			Key: k.text("dedupe_key"), Browser: k.share("browser_events_with_dedupe_key"),
			Server:         k.share("server_events_with_dedupe_key"),
			BrowserOverall: k.share("overall_browser_coverage_from_dedupe_key"),
		})
	}
	return q
}

// share returns a number, or the percentage of an object that holds one.
func (o fields) share(name string) *float64 {
	n, ok := o.number(name)
	if !ok {
		n, ok = o.object(name).number("percentage")
	}
	if !ok {
		return nil
	}
	return &n
}
