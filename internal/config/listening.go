package config

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// bindable says why metrics.listen could not be listened on, as far as that can be known
// without trying: to try would take the port from a start that happens meanwhile, and to
// connect would disturb who listens there. control is the path of our control socket: a
// breakwater that runs with this configuration has the address by right.
func bindable(listen, control string) *complaint {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return nil // the file's own check has said it
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return nil // 0: whichever is free
	}
	address, literal := literalAddress(host)
	if !literal {
		return nil // names are not looked up here: that takes time, and asks others
	}
	if !address.IsUnspecified() && !assigned(address) {
		return complain(`use one that it has, or "127.0.0.1:`+port+`"`, "%s is on an address that this host does not have", shown(listen))
	}
	if holder, taken := listener(address, uint16(n)); taken && !ownDaemon(control, holder) {
		return complain("choose another port, or end what listens there", "%s is in use, by a process of uid %d", shown(listen), holder)
	}
	return nil
}

// literalAddress is the address that a host means without a name server.
func literalAddress(host string) (netip.Addr, bool) {
	switch host {
	case "":
		return netip.IPv6Unspecified(), true // all addresses of both kinds
	case "localhost":
		host = "127.0.0.1"
	}
	address, err := netip.ParseAddr(host)
	return address.WithZone("").Unmap(), err == nil
}

// assigned reports whether the host has an address, or need not have it.
func assigned(address netip.Addr) bool {
	if address.IsLoopback() && address.Is4() { // 127.0.0.0/8
		return true
	}
	foreign := "/proc/sys/net/ipv4/ip_nonlocal_bind"
	if address.Is6() {
		foreign = "/proc/sys/net/ipv6/ip_nonlocal_bind"
	}
	if set, _ := os.ReadFile(foreign); strings.TrimSpace(string(set)) == "1" {
		return true
	}
	all, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(all, func(one net.Addr) bool {
		prefix, err := netip.ParsePrefix(one.String())
		return err == nil && prefix.Addr().WithZone("").Unmap() == address
	})
}

// listener looks for who listens on a port of an address, or of all of them, in the
// kernel's tables (proc(5)), and returns its uid.
func listener(address netip.Addr, port uint16) (uid uint32, found bool) {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			continue // no IPv6, or no such kernel
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() && !found {
			at, owner, ok := listening(lines.Text())
			if ok && at.Port() == port && overlap(at.Addr(), address) {
				uid, found = owner, true
			}
		}
		_ = f.Close() // it was only read
	}
	return uid, found
}

// overlap reports whether two sockets with these addresses, on one port, exclude each
// other. One on all IPv6 addresses may have all IPv4 ones too, or not: it is taken to
// exclude only another on all addresses.
func overlap(a, b netip.Addr) bool {
	if a.IsUnspecified() && b.IsUnspecified() {
		return true
	}
	return a == b || a.Is4() == b.Is4() && (a.IsUnspecified() || b.IsUnspecified()) || b == netip.IPv6Unspecified()
}

// listening reads a line of a table: "sl local_address rem_address st … uid …", the
// address in hexadecimal, each four bytes of it in the order of the machine. It is false
// for sockets that do not listen.
func listening(line string) (at netip.AddrPort, uid uint32, ok bool) {
	const listen = "0A" // TCP_LISTEN
	f := strings.Fields(line)
	if len(f) < 8 || f[3] != listen {
		return at, 0, false
	}
	text, port, _ := strings.Cut(f[1], ":")
	n, portErr := strconv.ParseUint(port, 16, 16)
	owner, ownerErr := strconv.ParseUint(f[7], 10, 32)
	raw, err := hex.DecodeString(text)
	if err != nil || portErr != nil || ownerErr != nil || len(raw)%4 != 0 {
		return at, 0, false
	}
	for word := range slices.Chunk(raw, 4) {
		binary.BigEndian.PutUint32(word, binary.NativeEndian.Uint32(word))
	}
	address, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(address.Unmap(), uint16(n)), uint32(owner), ok
}

// ownDaemon reports whether somebody listens on our control socket whose user is the one
// that has the port: the breakwater that this configuration is of.
func ownDaemon(control string, uid uint32) bool {
	info, err := os.Stat(control)
	if err != nil {
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid != uid {
		return false
	}
	table, err := os.ReadFile("/proc/net/unix")
	return err == nil && slices.ContainsFunc(strings.Split(string(table), "\n"), func(line string) bool {
		const accepts = "00010000" // __SO_ACCEPTCON in the column of flags
		f := strings.Fields(line)
		return len(f) > 3 && f[3] == accepts && strings.HasSuffix(line, " "+control)
	})
}
