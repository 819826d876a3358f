package deliver

import "context"

// Remind runs the reminders alone: days pass sooner without the lanes.
func (d *Deliverer) Remind(ctx context.Context) { d.remind(ctx) }
