// Prints what the program that Velero's releases use makes of schedules: a line of JSON each, which are
// crates/testbed/fixtures/velero/cron.jsonl.
//
//	TZ=UTC go run . > ../../fixtures/velero/cron.jsonl
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

var wrong = []string{
	"", " ", "@", "@dayly", "@Daily", " @daily", "@daily ", "@every", "@every ", "@every 1", "@every 1d", "@every often",
	"* * * *", "* * * * * *", "61 * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 0 *", "* * * 13 *",
	"* * * * 7", "* * * * 0-7", "5-1 * * * *", "1-2-3 * * * *", "x-2-3 * * * *", "1-x-3 * * * *", "1/2/3 * * * *",
	"x/2/3 * * * *", "1-2-3/4/5 * * * *", "99/2/3 * * * *", "-5 * * * *", "5- * * * *", "-- * * * *", "*/0 * * * *",
	"*/-5 * * * *", "*/x * * * *", "*/ * * * *", "/5 * * * *", "jan * * * *", "* * * foo *", "* * * * jan", "* * * mon *",
	"99999999999999999999 * * * *", "9223372036854775807 * * * *", "0x5 * * * *", "1_0 * * * *", "1.5 * * * *",
	"* * * * FRI-MON", "* * L * *", "* * 15W * *", "* * * * 5#3", "* * * * 5L", "H * * * *", "CRON_TZ=Nope/Zone 0 3 * * *",
	"TZ=europe/berlin 0 3 * * *", "CRON_TZ=UTC  ", "tz=UTC 0 3 * * *", "CRON_TZ=UTC 0 3 * *", "CRON_TZ=UTC @noon",
	"0 3 * * * # nightly", "0,x * * * *", "0,61 * * * *", "5-60/5 * * * *", "60-70 * * * *", "0 0 0-5 * *", "0 0 * 0-3 *",
}

var right = []string{
	"* * * * *", "? ? ? ? ?", "*/15 * * * *", "*/1 * * * *", "*/7 * * * *", "*/100 * * * *", "5/15 * * * *", "0-30/10 * * * *",
	"59 * * * *", "0,30 * * * *", "0,,30, * * * *", "+5 * * * *", "05 08 * * *", "*-5 * * * *", "*-x/20 * * * *", "?/20 * * * *",
	"0 3 * * *", "0 */6 * * *", "15 1,13 * * *", "0 9-17 * * *", "0 9-17/2 * * MON-FRI", "30 23 * * SUN", "0 0 1 * *", "0 0 31 * *",
	"0 0 29 2 *", "0 0 1,15 * *", "0 0 */10 * *", "0 0 1 1 *", "0 0 * 2 *", "0 0 * feb,JUN-Aug *", "0 0 1 jan mon",
	"0 0 13 * FRI", "0 0 */2 * 1", "0 0 2 * */2", "0 0 */1 * 1", "0 0 ? * 1", "0 0 1 * ?", "0 0 * * 0-6", "0 0 1-31 * 1",
	"0 0 28-31 * 5", "  0   3\t* *  * ", "59 23 31 12 *", "0 12 * * sat", "10-12,50-58/4 7 * * 2",
	"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly",
	"@every 1h30m", "@every 90s", "@every 1ms", "@every -5m", "@every 1.5s", "@every 2562047h", "@every 0",
	"CRON_TZ=UTC 0 3 * * *", "TZ=UTC 0 3 * * *", "CRON_TZ= 0 3 * * *", "CRON_TZ=Asia/Tokyo 0 3 * * *", "CRON_TZ=Asia/Kolkata @daily",
	"TZ=Asia/Kathmandu 15 */8 * * 1", "CRON_TZ=Asia/Tokyo @every 2h", "CRON_TZ=Asia/Tokyo   0 3 * * *  ", "CRON_TZ=Etc/GMT+8 0 0 1 * *",
	// By the hours, across all changes of the clocks.
	"CRON_TZ=Europe/Berlin 0 * * * *", "CRON_TZ=America/New_York */20 * * * *", "CRON_TZ=Europe/Berlin 30 * * * 0",
	"CRON_TZ=Australia/Lord_Howe 15,45 * * * *", "CRON_TZ=America/Santiago 0 * * * *", "CRON_TZ=Africa/Cairo 59 * * * *",
	// Far from any.
	"CRON_TZ=Europe/Berlin 0 12 * * *", "CRON_TZ=America/New_York 0 6 1 * *", "CRON_TZ=America/New_York 30 17 * * MON-FRI",
}

var starts = []string{
	"2026-01-01T00:00:00Z", "2026-02-28T23:59:59Z", "2026-03-29T00:29:30Z", "2026-10-25T00:00:00Z", "2026-03-08T05:59:00Z",
	"2026-11-01T05:10:00Z", "2026-04-04T14:00:00Z", "2026-10-03T14:40:00Z", "2026-12-31T23:59:59Z", "2028-02-29T00:00:00Z",
	"2026-09-06T03:30:00Z", "2026-04-05T02:30:00Z", "2026-04-23T21:30:00Z", "2026-10-29T20:30:00Z",
}

// parse does what Velero does with a panic.
func parse(spec string) (schedule cron.Schedule, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return cron.ParseStandard(spec)
}

func main() {
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for _, spec := range append(wrong, right...) {
		schedule, err := parse(spec)
		if err != nil {
			out.Encode(map[string]string{"spec": spec, "error": err.Error()})
			continue
		}
		from := starts
		if !strings.Contains(spec, "TZ=") {
			from = starts[:4]
		}
		for _, start := range from {
			at, _ := time.Parse(time.RFC3339, start)
			next := []string{}
			for len(next) < 4 {
				at = schedule.Next(at)
				next = append(next, at.UTC().Format(time.RFC3339))
			}
			out.Encode(map[string]any{"spec": spec, "from": start, "next": next})
		}
	}
}
