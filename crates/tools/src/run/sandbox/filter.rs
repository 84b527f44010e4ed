//! The system calls that a sandboxed command does without. Everything else is allowed: files are Landlock's business.
//!
//! Sockets are refused where they are made, so that no family and no protocol has to be known. A pair of connected
//! sockets is let through, since programs talk to their children by it, unless it is one of datagrams: such a socket can
//! still be sent anywhere. A program of another architecture is killed by the filter's first instructions.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// Refused whatever their arguments. `connect` is of no use without `socket`, and refused to be sure.
const REFUSED: [i64; 10] = [
    libc::SYS_socket,
    libc::SYS_connect,
    // Makes and connects sockets without a system call for each.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Leads into the kernel, past Landlock, for a command that runs as root.
    libc::SYS_bpf,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
];

/// The second table of system calls on x86-64 has the same numbers with this bit, and reports the same architecture.
const X32: Option<i64> = if cfg!(target_arch = "x86_64") { Some(0x4000_0000) } else { None };

/// SOCK_CLOEXEC and SOCK_NONBLOCK travel in the upper bits of a socket's type.
const TYPE_BITS: u64 = 0xf;

pub(super) fn apply() -> Result<(), Error> {
    seccompiler::apply_filter(&program()?)
}

fn program() -> Result<BpfProgram, BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.into_iter().map(|call| (call, Vec::new())).collect();
    rules.insert(libc::SYS_socketpair, pairs_that_reach_others()?);
    if let Some(bit) = X32 {
        let others: Vec<_> = rules.keys().map(|call| (call | bit, Vec::new())).collect();
        rules.extend(others);
    }
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter =
        SeccompFilter::new(rules, SeccompAction::Allow, refuse, TargetArch::try_from(std::env::consts::ARCH)?)?;
    filter.try_into()
}

/// Any one of these rules refuses a call of socketpair(2).
fn pairs_that_reach_others() -> Result<Vec<SeccompRule>, BackendError> {
    let family = libc::AF_UNIX.unsigned_abs().into();
    let datagram = libc::SOCK_DGRAM.unsigned_abs().into();
    // The kernel makes datagram sockets of these.
    let raw = libc::SOCK_RAW.unsigned_abs().into();
    let conditions = [
        (0, SeccompCmpOp::Ne, family),
        (1, SeccompCmpOp::MaskedEq(TYPE_BITS), datagram),
        (1, SeccompCmpOp::MaskedEq(TYPE_BITS), raw),
    ];
    let rule = |(argument, operator, value)| {
        SeccompRule::new(vec![SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?])
    };
    conditions.into_iter().map(rule).collect()
}
