package report

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
)

// Machine is what the comparison ran on.
type Machine struct {
	Processor  string   `json:"processor"`
	Cores      int      `json:"cores"`
	MemoryGiB  float64  `json:"memory_gib"`
	Kernel     string   `json:"kernel"`
	Filesystem string   `json:"filesystem"` // of the data
	Go         string   `json:"go"`
	Load       []string `json:"load"` // of one minute, before each run
}

// ThisMachine describes the machine, and the file system that dir is on.
func ThisMachine(dir string) Machine {
	m := Machine{Processor: field("/proc/cpuinfo", "model name"), Cores: runtime.NumCPU(), Kernel: strings.TrimSpace(content("/proc/sys/kernel/osrelease")), Go: runtime.Version(), Filesystem: "unknown"}
	var kib float64
	if _, err := fmt.Sscanf(field("/proc/meminfo", "MemTotal"), "%f", &kib); err == nil {
		m.MemoryGiB = kib / (1 << 20)
	}
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) == nil {
		names := map[int64]string{0xef53: "ext4", 0x58465342: "xfs", 0x9123683e: "btrfs", 0x794c7630: "overlay", 0x01021994: "tmpfs", 0x2fc12fc1: "zfs"}
		if m.Filesystem = names[int64(s.Type)]; m.Filesystem == "" {
			m.Filesystem = fmt.Sprintf("type %#x", s.Type)
		}
	}
	return m
}

// String is a line for the table.
func (m Machine) String() string {
	return fmt.Sprintf("%s, %d cores, %.0f GiB, Linux %s, %s, %s, load before each run: %s", m.Processor, m.Cores, m.MemoryGiB, m.Kernel, m.Filesystem, m.Go, strings.Join(m.Load, ", "))
}

// Load is how much the machine had to do in the last minute.
func Load() string { return strings.Split(content("/proc/loadavg")+" ", " ")[0] }

func field(path, name string) string {
	for line := range strings.Lines(content(path)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// content is empty where there is nothing to read.
func content(path string) string {
	raw, _ := os.ReadFile(path)
	return string(raw)
}
