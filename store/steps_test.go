package store

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// durableSteps says of each durable step which tests kill the process, or the power, before it and behind it. What is behind one step is
// before the next. A step that is told by replace has the steps .write, .rename and .sync; one of do has .sync behind it.
var durableSteps = map[string]string{
	"probe":             "TestLifeKilled TestDirectoryThatCannotBeWritten",
	"current":           "TestLifeKilled TestPowerLossWhileMakingADirectory TestPowerLossWhileInstalling",
	"identity":          "TestLifeKilled TestPowerLossWhileSettingTheIdentity",
	"log.store":         "TestLifeKilled TestBoltLogPowerLoss TestWALPowerLoss TestSyncErrorEndsTheProcess",
	"log.delete":        "TestLifeKilled TestBoltLogPowerLoss TestWALPowerLoss TestDeleteRangeCutShort TestSyncErrorEndsTheProcess",
	"log.make":          "TestLifeKilled TestNewLogKilledAtEachStep TestConversionKilled",
	"log.copy":          "TestConversionKilled TestConversionKilledAtEachStep",
	"log.compare":       "TestConversionKilled TestConversionKilledAtEachStep",
	"log.leftover":      "TestConversionKilled TestConversionKilledAtEachStep",
	"log.current":       "TestConversionKilled TestLifeKilled",
	"log.bolt":          "TestConversionKilled TestLifeKilled", // told by publish: .rename and .sync
	"log.wal":           "TestConversionKilled TestLifeKilled", // the same
	"log.segments":      "TestWALPowerLoss TestKilledBeforeTheSync TestLifeKilled TestBackgroundErrorIsFatal",
	"log.remove":        "TestWALPowerLoss TestBackgroundErrorIsFatal",
	"log.wipe":          "TestWALPowerLoss TestTornTail",
	"stable.make":       "TestLifeKilled",
	"stable":            "TestLifeKilled", // told by publish
	"stable.set":        "TestLifeKilled TestStablePowerLoss TestSyncErrorEndsTheProcess",
	"table.write":       "TestCrashLeavesAWholePrefix",
	"table.sync":        "TestLifeKilled TestCrashLeavesAWholePrefix TestSyncErrorEndsTheProcess",
	"snapshot.state":    "TestLifeKilled TestPowerLossWhileInstalling",
	"snapshot.meta":     "TestLifeKilled TestPowerLossWhileTakingASnapshot TestPowerLossWhileInstalling",
	"snapshot":          "TestLifeKilled TestPowerLossWhileTakingASnapshot TestPowerLossWhileInstalling", // told by publish
	"restore.unpack":    "TestLifeKilled TestPowerLossWhileInstalling TestRestoreInterrupted",
	"restore":           "TestLifeKilled TestPowerLossWhileInstalling TestRestoreInterrupted", // told by publish
	"restore.current":   "TestLifeKilled TestPowerLossWhileInstalling TestSyncErrorEndsTheProcess",
	"unfinished":        "TestRestoreInterrupted",
	"unfinished.remove": "TestRestoreInterrupted",
}

// TestEachDurableStepHasItsTest compares the table with the code, and with the tests that there are.
func TestEachDurableStepHasItsTest(t *testing.T) {
	told := regexp.MustCompile(`\.(?:step|do|guarded|replace|publish)\("([a-z.]+[a-z])"`)
	test := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	inCode, tests := map[string]bool{"log.bolt": true, "log.wal": true}, map[string]bool{}
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "_test.go") {
			for _, m := range test.FindAllStringSubmatch(string(raw), -1) {
				tests[m[1]] = true
			}
			continue
		}
		for _, m := range told.FindAllStringSubmatch(string(raw), -1) {
			inCode[m[1]] = true
		}
	}
	if got, want := slices.Sorted(maps.Keys(inCode)), slices.Sorted(maps.Keys(durableSteps)); !slices.Equal(got, want) {
		t.Errorf("the code has the steps\n%q, the table\n%q", got, want)
	}
	for step, by := range durableSteps {
		for _, name := range strings.Fields(by) {
			if !tests[name] {
				t.Errorf("%s is said to be shown by %s, which there is not", step, name)
			}
		}
	}
}
