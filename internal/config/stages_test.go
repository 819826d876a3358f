package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
)

// A slip in an event's name may be meant: it is told, and stays as it is.
func TestSpellingsAreWarnedOfAndNeverChanged(t *testing.T) {
	t.Parallel()
	for written, meant := range map[string]string{
		"purchase": "Purchase", "qualified_lead": "QualifiedLead", "Qualified Lead": "QualifiedLead", "LEAD": "Lead", "submit-application": "SubmitApplication",
		"Purchase": "", "QualifiedLead": "", "Lead 2": "Lead", "Besichtigung": "", "Leads": "",
	} {
		f, err := config.Parse("c.yaml", []byte("workspaces:\n  - name: a\n    stages: [{stage: New, event: "+written+"}]\n"), nil)
		require.NoError(t, err, written)
		require.Equal(t, written, f.Workspaces[0].Rules[0].Event)
		if meant == "" {
			require.Empty(t, f.Warnings, written)
			continue
		}
		require.Len(t, f.Warnings, 1, written)
		require.Equal(t, "3:34: workspaces[0].stages[0].event: the event is another one than "+meant+", for names go out as they are written: write "+meant+" if that is meant",
			f.Warnings[0].String())
	}
}

func TestAStageThatIsNearlyReceivedIsWarnedOf(t *testing.T) {
	t.Parallel()
	f, err := config.Parse("c.yaml", []byte("workspaces: [{name: a, stages: [{stage: Received, event: Lead}], guard: {off: [zapier]}}]"), nil)
	require.NoError(t, err)
	require.Equal(t, "Received", f.Workspaces[0].Rules[0].Stage)
	require.Len(t, f.Warnings, 2)
	require.Equal(t, "workspaces[0].stages[0].stage", f.Warnings[0].Where)
	require.Equal(t, "workspaces[0].guard.off[0]", f.Warnings[1].Where)
}

func TestRulesThatOnlyLookAlikeAreTaken(t *testing.T) {
	t.Parallel()
	f, err := config.Parse("c.yaml", []byte(`workspaces:
  - name: a
    currency: EUR
    crms: [{kind: hubspot, name: one}, {kind: kommo, name: two}]
    stages:
      - {stage: Won, event: Purchase, value: 250, crm: one}
      - {stage: Won, event: Purchase, value: deal, crm: TWO}
      - {stage: Won, event: purchase}
      - {stage: Won, pipeline: Sale, event: Purchase}
      - {stage: Won, pipeline: Sale, event: Purchase, if: {type: new}}
      - {field: Won, is: Won, event: Purchase, after: A}
      - {stage: X, event: A, after: B}
      - {stage: Y, event: A, after: C}
      - {stage: X, event: B, after: C}
      - {stage: X, event: C}
    guard: {off: true}
`), nil)
	require.NoError(t, err)
	require.Len(t, f.Workspaces[0].Rules, 10)
	require.Equal(t, "two", f.Workspaces[0].Rules[1].CRM, "as the CRM is called")
	require.True(t, f.Workspaces[0].Guard.Off)
	require.Equal(t, ledger.DefaultGuard().Burst, f.Workspaces[0].Guard.Burst)
}

func TestSnapshotHasTheRulesAndTheAddressesOfCRMs(t *testing.T) {
	t.Parallel()
	f, s, err := fleet(t)
	require.NoError(t, err)
	one := s.Workspace("one")
	require.Equal(t, f.Workspaces[0].Rules, one.Rules)
	require.Equal(t, f.Workspaces[0].Guard, one.Guard)
	w, c := s.CRMByWebhook("made-by-the-store-too")
	require.Same(t, one, w)
	require.Same(t, one.CRMs[0], c)
	for _, key := range []string{"", "made-by-the-store", environment["WEBHOOK"]} {
		w, c = s.CRMByWebhook(key)
		require.Nil(t, w, key)
		require.Nil(t, c, key)
	}
	_, source := s.SourceByWebhook("made-by-the-store-too")
	require.Nil(t, source)
}
