//! The environment of this program, and how a long-running program hides it from other processes.
//!
//! The kernel shows the environment of a process to every other process of the same user: `ps
//! auxeww` in a command of the agent would print the editor's keys. Therefore a long-running
//! program executes itself again with only the harmless variables in its environment. It passes all
//! variables to itself in an unnamed file, which it reads and closes at once.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::Context;
use listenfd::ListenFd;
use rustix::io::FdFlags;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};

/// The hidden flag of a program that receives its environment in a file.
pub const FLAG: &str = "--environment-follows";

/// The complete environment of this program, if `conceal` has hidden a part of it from the kernel.
static TAKEN: OnceLock<Vec<(OsString, OsString)>> = OnceLock::new();

/// Returns all variables, including hidden ones.
pub fn variables() -> Vec<(OsString, OsString)> {
    TAKEN.get().cloned().unwrap_or_else(|| std::env::vars_os().collect())
}

/// Returns the value of one variable.
pub fn variable(name: &str) -> Option<OsString> {
    variables().into_iter().find(|(known, _)| known == name).map(|(_, value)| value)
}

/// Receives the variables that `conceal` passed on. Called once, at the start of a program that was
/// started with `FLAG`.
pub fn take_over() -> anyhow::Result<()> {
    let socket = ListenFd::from_env()
        .take_unix_datagram(0)?
        .with_context(|| format!("{FLAG} is for acpd's own use: no environment was passed with it"))?;
    let mut text = Vec::new();
    receive(&socket).and_then(|mut file| {
        file.rewind()?;
        file.read_to_end(&mut text)
    })?;
    let lines = text.split(|byte| *byte == 0).filter(|line| !line.is_empty());
    let pairs = lines.filter_map(|line| {
        let middle = line.iter().position(|byte| *byte == b'=')?;
        let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        Some((text(&line[..middle]), text(&line[middle + 1..])))
    });
    let _ = TAKEN.set(pairs.collect());
    Ok(())
}

/// Executes a command in place of this program, with only the harmless variables in its
/// environment, and with `settings` for itself. The new program has `FLAG` among its arguments and
/// receives all variables with `take_over`. Returns only if that fails.
pub fn replace_program(
    mut command: Command,
    settings: &[(&str, &str)],
    is_harmless: fn(&OsStr, &OsStr) -> bool,
) -> io::Error {
    let variables: Vec<_> = std::env::vars_os().collect();
    match conceal_in(&mut command, &variables, is_harmless) {
        // The socket must stay open until the program is replaced.
        Ok(_socket) => command.envs(settings.iter().copied()).exec(),
        Err(error) => error,
    }
}

fn conceal_in(
    command: &mut Command,
    variables: &[(OsString, OsString)],
    is_harmless: fn(&OsStr, &OsStr) -> bool,
) -> io::Result<UnixDatagram> {
    let mut file = system::memory_file("environment")?;
    let text: Vec<u8> =
        variables.iter().flat_map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat()).collect();
    file.write_all(&text)?;
    let (ours, theirs) = UnixDatagram::pair()?;
    send(&ours, &file)?;
    rustix::io::fcntl_setfd(&theirs, FdFlags::empty())?;
    command.env_clear().envs(variables.iter().filter(|(name, value)| is_harmless(name, value)).cloned());
    // The socket is passed in the way of service managers.
    command.env("LISTEN_FDS", "1").env("LISTEN_FDS_FIRST_FD", theirs.as_raw_fd().to_string());
    command.env("LISTEN_PID", std::process::id().to_string());
    Ok(theirs)
}

fn send(socket: &UnixDatagram, file: &File) -> io::Result<()> {
    let descriptors = [file.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    rustix::net::sendmsg(socket, &[IoSlice::new(b"e")], &mut ancillary, SendFlags::empty())?;
    Ok(())
}

fn receive(socket: &UnixDatagram) -> io::Result<File> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, flags)?;
    let mut descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    descriptors.next().map(File::from).ok_or_else(|| io::Error::other("the environment was not received"))
}
