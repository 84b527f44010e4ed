//! The system calls that a sandboxed command may not use. Everything else is allowed, and Landlock
//! restricts files.
//!
//! Sockets are refused on creation, whatever their family and protocol. A pair of connected sockets
//! is allowed, because programs use one to talk to their children, unless it is a pair of datagram
//! sockets, which can still send anywhere. Calls on other processes are refused where their
//! arguments show it. The first instructions of the filter kill a program of another architecture.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// System calls that are refused with any arguments. `connect` is useless without `socket`;
/// refusing it is a precaution.
const REFUSED: [i64; 10] = [
    libc::SYS_socket,
    libc::SYS_connect,
    // `io_uring` creates and connects sockets without a system call for each.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // For a command that runs as root, these give access to the kernel past Landlock.
    libc::SYS_bpf,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
];

/// The bit that marks a call of the x32 table on x86-64. Its calls have the same numbers and report
/// the same architecture.
const X32: Option<i64> = if cfg!(target_arch = "x86_64") { Some(0x4000_0000) } else { None };

/// The argument of `ioprio_set(2)` that selects all processes of a user.
const IOPRIO_WHO_USER: i32 = 3;

/// The bits of a socket's type without SOCK_CLOEXEC and SOCK_NONBLOCK, which are in the upper bits.
const TYPE_BITS: u64 = 0xf;

pub(super) fn apply() -> Result<(), Error> {
    seccompiler::apply_filter(&program()?)
}

fn program() -> Result<BpfProgram, BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.into_iter().map(|call| (call, Vec::new())).collect();
    rules.insert(libc::SYS_socketpair, pairs_that_reach_others()?);
    rules.extend(calls_on_others()?);
    if let Some(bit) = X32 {
        let others: Vec<_> = rules.keys().map(|call| (call | bit, Vec::new())).collect();
        rules.extend(others);
    }
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter =
        SeccompFilter::new(rules, SeccompAction::Allow, refuse, TargetArch::try_from(std::env::consts::ARCH)?)?;
    filter.try_into()
}

/// Rules for calls that change the limits, priority or scheduling of a process. They take the
/// process as an argument, and the kernel allows them for every process of the same user. Zero is
/// the caller itself. Landlock restricts signals and debugging, because it knows which processes
/// are in the sandbox. A signal to all processes is refused here as well, because older kernels do
/// not confine signals.
fn calls_on_others() -> Result<Vec<(i64, Vec<SeccompRule>)>, BackendError> {
    let others = |argument| condition(argument, SeccompCmpOp::Ne, 0);
    let all_of_a_user = |users: i32| condition(0, SeccompCmpOp::Eq, users.unsigned_abs().into());
    let everybody = u64::from(u32::MAX);
    Ok(vec![
        // Reading the limits of other processes is allowed. In that case the third argument, the
        // new limits, is null.
        (
            libc::SYS_prlimit64,
            vec![SeccompRule::new(vec![
                others(0)?,
                SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?,
            ])?],
        ),
        (libc::SYS_sched_setaffinity, vec![SeccompRule::new(vec![others(0)?])?]),
        (libc::SYS_sched_setscheduler, vec![SeccompRule::new(vec![others(0)?])?]),
        (libc::SYS_sched_setparam, vec![SeccompRule::new(vec![others(0)?])?]),
        (libc::SYS_sched_setattr, vec![SeccompRule::new(vec![others(0)?])?]),
        (
            libc::SYS_setpriority,
            vec![
                SeccompRule::new(vec![others(1)?])?,
                SeccompRule::new(vec![all_of_a_user(libc::PRIO_USER.cast_signed())?])?,
            ],
        ),
        (
            libc::SYS_ioprio_set,
            vec![SeccompRule::new(vec![others(1)?])?, SeccompRule::new(vec![all_of_a_user(IOPRIO_WHO_USER)?])?],
        ),
        (libc::SYS_kill, vec![SeccompRule::new(vec![condition(0, SeccompCmpOp::Eq, everybody)?])?]),
    ])
}

fn condition(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

/// Rules for socketpair(2). A call that matches any of them is refused.
fn pairs_that_reach_others() -> Result<Vec<SeccompRule>, BackendError> {
    let family = libc::AF_UNIX.unsigned_abs().into();
    let datagram = libc::SOCK_DGRAM.unsigned_abs().into();
    // The kernel turns sockets of this type into datagram sockets.
    let raw = libc::SOCK_RAW.unsigned_abs().into();
    let conditions = [
        (0, SeccompCmpOp::Ne, family),
        (1, SeccompCmpOp::MaskedEq(TYPE_BITS), datagram),
        (1, SeccompCmpOp::MaskedEq(TYPE_BITS), raw),
    ];
    let rule = |(argument, operator, value)| SeccompRule::new(vec![condition(argument, operator, value)?]);
    conditions.into_iter().map(rule).collect()
}
