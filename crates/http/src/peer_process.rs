//! Finds the process at the other end of a connection and checks whether the agent started it. A
//! command that the agent runs could read the token, and it must not answer its own permission
//! question.
//!
//! The rule is that of the Unix socket: a process that the daemon started is refused, and so is one
//! that cannot be identified. The kernel reports the owner of a TCP socket only in its tables under
//! /proc, which are read here. That takes long on a busy machine; peers that connect during a round
//! wait for the next one and share it.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fs, io, thread};

use tokio::sync::oneshot;

use crate::ProcessCheck;

/// Checks the peers of one server.
pub(crate) struct PeerChecks {
    port: u16,
    check: ProcessCheck,
    queue: Mutex<PeerQueue>,
}

#[derive(Default)]
struct PeerQueue {
    waiting: Vec<Waiting>,
    /// Whether a thread is working. After each round it takes the peers that wait.
    under_way: bool,
}

struct Waiting {
    peer: SocketAddr,
    verdict: oneshot::Sender<io::Result<bool>>,
}

impl PeerChecks {
    /// Creates the checks for a server that listens on this port.
    pub(crate) fn new(port: u16, check: ProcessCheck) -> Arc<Self> {
        Arc::new(Self { port, check, queue: Mutex::default() })
    }

    /// Whether the agent started the process at `peer`, the other end of a connection.
    pub(crate) async fn is_own_process(self: &Arc<Self>, peer: SocketAddr) -> io::Result<bool> {
        let (verdict, given) = oneshot::channel();
        let start = {
            let mut queue = self.queue();
            queue.waiting.push(Waiting { peer, verdict });
            !std::mem::replace(&mut queue.under_way, true)
        };
        if start {
            let this = self.clone();
            tokio::task::spawn_blocking(move || this.work());
        }
        given.await.unwrap_or_else(|_| Err(io::Error::other("the check of the connecting process panicked")))
    }

    /// Checks the peers in rounds until none waits.
    fn work(&self) {
        let _reset = ResetOnPanic(self);
        loop {
            let waiting = {
                let mut queue = self.queue();
                if queue.waiting.is_empty() {
                    queue.under_way = false;
                    return;
                }
                std::mem::take(&mut queue.waiting)
            };
            let peers: Vec<SocketAddr> = waiting.iter().map(|waiting| waiting.peer).collect();
            for (waiting, verdict) in waiting.into_iter().zip(verdicts(&peers, self.port, &self.check)) {
                // The connection may have closed.
                let _ = waiting.verdict.send(verdict);
            }
        }
    }

    fn queue(&self) -> MutexGuard<'_, PeerQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets the next peer start another thread if this one panics.
struct ResetOnPanic<'a>(&'a PeerChecks);

impl Drop for ResetOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.queue().under_way = false;
        }
    }
}

/// Whether the agent started the process of each peer. Reads many small files, once for all peers.
fn verdicts(peers: &[SocketAddr], port: u16, check: &ProcessCheck) -> Vec<io::Result<bool>> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let sockets = sockets(&tables, port);
    let socket = |peer: &SocketAddr| sockets.get(&(peer.ip().to_canonical(), peer.port()));
    let user = rustix::process::geteuid().as_raw();
    let ours = peers.iter().filter_map(socket).filter(|socket| socket.user == user).map(|socket| socket.inode);
    let holders = holders(&ours.collect());
    let verdict = |peer: &SocketAddr| {
        let Some(socket) = socket(peer) else {
            // A local socket is in the tables. One that is not belongs to another machine, where
            // the agent's commands do not run.
            return if peer.ip().is_loopback() { Err(unseen()) } else { Ok(false) };
        };
        if socket.user != user {
            return Ok(false);
        }
        let holders = holders.as_ref().map_err(|error| io::Error::other(error.to_string()))?;
        let pids = holders.get(&socket.inode).ok_or_else(unseen)?;
        for pid in pids {
            if check(*pid)? {
                return Ok(true);
            }
        }
        Ok(false)
    };
    peers.iter().map(verdict).collect()
}

fn unseen() -> io::Error {
    io::Error::other("the connecting process cannot be seen from here")
}

#[derive(Debug, PartialEq, Eq)]
struct Socket {
    user: u32,
    inode: u64,
}

/// The sockets whose other end has this port, by their own address.
fn sockets(tables: &[String], port: u16) -> HashMap<(IpAddr, u16), Socket> {
    let read = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (own, other) = (address(words.next()?)?, address(words.next()?)?);
        let mut rest = words.skip(4);
        let (user, inode) = (rest.next()?.parse().ok()?, rest.nth(1)?.parse().ok()?);
        (other.1 == port).then_some((own, Socket { user, inode }))
    };
    let mut sockets = HashMap::new();
    for (own, socket) in tables.iter().flat_map(|table| table.lines().skip(1)).filter_map(read) {
        sockets.entry(own).or_insert(socket);
    }
    sockets
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

/// The processes that have each of these sockets open, among those that the daemon may inspect. The
/// agent's commands are among these.
fn holders(inodes: &HashSet<u64>) -> io::Result<HashMap<u64, Vec<u32>>> {
    let mut holders: HashMap<u64, Vec<u32>> = HashMap::new();
    if inodes.is_empty() {
        return Ok(holders);
    }
    let pids = fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    for pid in pids {
        // The process may belong to another user, or may have ended.
        let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        for inode in open.flatten().filter_map(|file| socket_inode(fs::read_link(file.path()).ok()?.as_os_str())) {
            if inodes.contains(&inode) {
                holders.entry(inode).or_default().push(pid);
            }
        }
    }
    Ok(holders)
}

/// The number in `socket:[123]`.
fn socket_inode(link: &std::ffi::OsStr) -> Option<u64> {
    let number = link.as_bytes().strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn is_own_process(peer: SocketAddr, port: u16) -> io::Result<bool> {
        let nobody: ProcessCheck = Arc::new(|_| Ok(false));
        verdicts(&[peer], port, &nobody).remove(0)
    }

    #[tokio::test]
    async fn many_peers_share_few_rounds_and_each_gets_its_own_verdict() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (here, gone) = (client.local_addr().unwrap(), "127.0.0.1:1".parse().unwrap());
        let (begun, may_go_on) = (Arc::new(AtomicUsize::new(0)), Arc::new(Barrier::new(2)));
        let check: ProcessCheck = {
            let (begun, may_go_on) = (begun.clone(), may_go_on.clone());
            Arc::new(move |_| {
                // The first round is held up until all other peers wait.
                if begun.fetch_add(1, Ordering::SeqCst) == 0 {
                    may_go_on.wait();
                }
                Ok(true)
            })
        };
        let checks = PeerChecks::new(port, check);
        let ask = |peer| {
            let checks = checks.clone();
            tokio::spawn(async move { checks.is_own_process(peer).await })
        };
        let first = ask(here);
        while begun.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        let others: Vec<_> = (0..100).map(|at| (at, ask(if at % 2 == 0 { here } else { gone }))).collect();
        while checks.queue().waiting.len() < others.len() {
            tokio::task::yield_now().await;
        }
        may_go_on.wait();
        assert!(first.await.unwrap().unwrap());
        for (at, verdict) in others {
            assert_eq!(verdict.await.unwrap().ok(), (at % 2 == 0).then_some(true));
        }
        // One round for the first, and one for all the others, each of which looks at the holder.
        assert_eq!(begun.load(Ordering::SeqCst), 51);
        // The thread sends its last verdict before it finds that no peer waits any more.
        while checks.queue().under_way {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_check_that_panics_refuses_one_peer_and_stops_no_other_check() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let times = AtomicUsize::new(0);
        let checks = PeerChecks::new(
            port,
            Arc::new(move |_| match times.fetch_add(1, Ordering::SeqCst) {
                0 => panic!("as the test wants it"),
                _ => Ok(false),
            }),
        );
        let peer = client.local_addr().unwrap();
        assert!(checks.is_own_process(peer).await.is_err());
        while checks.queue().under_way {
            tokio::task::yield_now().await;
        }
        assert!(!checks.is_own_process(peer).await.unwrap());
    }

    #[test]
    fn the_holder_of_a_connection_is_found_for_both_kinds_of_addresses() {
        for listen in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(listen) else { continue };
            let ours = listener.local_addr().unwrap();
            let theirs = TcpStream::connect(ours).unwrap().local_addr().unwrap();
            assert!(is_own_process(theirs, ours.port()).is_err(), "it has hung up: {listen}");
            let client = TcpStream::connect(ours).unwrap();
            let peer = client.local_addr().unwrap();
            assert!(!is_own_process(peer, ours.port()).unwrap(), "{listen}");
            let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
            let inode = sockets(&tables, ours.port())[&(peer.ip(), peer.port())].inode;
            assert_eq!(holders(&[inode].into()).unwrap()[&inode], [std::process::id()]);
        }
    }

    #[test]
    fn another_machine_is_not_the_agent() {
        assert!(!is_own_process("192.0.2.7:4711".parse().unwrap(), 1).unwrap());
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
