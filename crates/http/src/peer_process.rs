//! Finds the process at the other end of a connection and asks whether the agent started it. A
//! command that the agent runs could read the token, and it must not answer its own permission
//! question.
//!
//! The rule is that of the Unix socket: a process that the daemon started is refused, and so is one
//! that cannot be identified. The kernel tells who owns a TCP socket only in its tables under
//! /proc, so this reads those.

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::{fs, io};

use crate::ProcessCheck;

/// Whether the agent started the process at `peer`, the other end of a connection to the server's
/// `port`. Reads many small files.
pub(crate) fn is_own_process(peer: SocketAddr, port: u16, check: &ProcessCheck) -> io::Result<bool> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let Some(socket) = tables.iter().find_map(|table| find(table, peer, port)) else {
        // A local socket is in the tables. One that is not belongs to another machine, where the
        // agent's commands do not run.
        return if peer.ip().is_loopback() { Err(unseen()) } else { Ok(false) };
    };
    if socket.user != rustix::process::geteuid().as_raw() {
        return Ok(false);
    }
    let holders = holders(socket.inode)?;
    if holders.is_empty() {
        return Err(unseen());
    }
    for pid in holders {
        if check(pid)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn unseen() -> io::Error {
    io::Error::other("the connecting process cannot be seen from here")
}

#[derive(Debug, PartialEq, Eq)]
struct Socket {
    user: u32,
    inode: u64,
}

/// The socket whose own end is `peer` and whose other end has this port.
fn find(table: &str, peer: SocketAddr, port: u16) -> Option<Socket> {
    table.lines().skip(1).find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (own, other) = (address(words.next()?)?, address(words.next()?)?);
        let mut rest = words.skip(4);
        let (user, inode) = (rest.next()?.parse().ok()?, rest.nth(1)?.parse().ok()?);
        let is_it = own == (peer.ip().to_canonical(), peer.port()) && other.1 == port;
        is_it.then_some(Socket { user, inode })
    })
}

/// An address as the kernel writes it: words of four bytes in the order of the machine, and a port.
fn address(text: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = text.split_once(':')?;
    let words: Vec<u32> = (0..address.len())
        .step_by(8)
        .map(|at| address.get(at..at + 8).and_then(|word| u32::from_str_radix(word, 16).ok()))
        .collect::<Option<_>>()?;
    let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
    let address = match <[u8; 4]>::try_from(bytes.as_slice()) {
        Ok(four) => IpAddr::V4(Ipv4Addr::from(four)),
        Err(_) => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)),
    };
    Some((address.to_canonical(), u16::from_str_radix(port, 16).ok()?))
}

/// The processes that have this socket open, among those that the daemon may inspect. The agent's
/// commands are among these.
fn holders(inode: u64) -> io::Result<Vec<u32>> {
    let link = format!("socket:[{inode}]");
    let pids = fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let holds = |pid: &u32| {
        // The process may belong to another user, or be gone.
        let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        open.flatten()
            .any(|file| fs::read_link(file.path()).is_ok_and(|to| to.as_os_str() == OsStr::from_bytes(link.as_bytes())))
    };
    Ok(pids.filter(holds).collect())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;

    use super::*;

    fn nobody() -> ProcessCheck {
        Arc::new(|_| Ok(false))
    }

    #[test]
    fn the_holder_of_a_connection_is_found_for_both_kinds_of_addresses() {
        for listen in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(listen) else { continue };
            let ours = listener.local_addr().unwrap();
            let theirs = TcpStream::connect(ours).unwrap().local_addr().unwrap();
            assert!(is_own_process(theirs, ours.port(), &nobody()).is_err(), "it has hung up: {listen}");
            let client = TcpStream::connect(ours).unwrap();
            let peer = client.local_addr().unwrap();
            assert!(!is_own_process(peer, ours.port(), &nobody()).unwrap(), "{listen}");
            let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
            let socket = tables.iter().find_map(|table| find(table, peer, ours.port())).unwrap();
            assert_eq!(holders(socket.inode).unwrap(), [std::process::id()]);
        }
    }

    #[test]
    fn another_machine_is_not_the_agent() {
        assert!(!is_own_process("192.0.2.7:4711".parse().unwrap(), 1, &nobody()).unwrap());
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn addresses_are_read_as_the_kernel_writes_them() {
        let read = |text| address(text).map(|(address, port)| SocketAddr::new(address, port).to_string());
        assert_eq!(read("0100007F:1CAD").as_deref(), Some("127.0.0.1:7341"));
        assert_eq!(read("0000000000000000FFFF00000100007F:1CAD").as_deref(), Some("127.0.0.1:7341"));
        assert_eq!(read("00000000000000000000000001000000:0050").as_deref(), Some("[::1]:80"));
        assert_eq!(read("0100007:1"), None);
        assert_eq!(read("nonsense"), None);
    }
}
