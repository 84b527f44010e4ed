//! The helper process: `acpd __run pdf` and `acpd __run image SIDE BYTES`. It does one conversion,
//! without an async runtime.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{DEADLINE, ImageLimit, pdf, scaling};

/// The most bytes of address space that the process may use.
const MEMORY: u64 = 1 << 30;

/// The stack size in bytes: enough for nested files, but not for files that refer to themselves.
const STACK: usize = 32 << 20;

/// The conversion that the helper was started for.
enum Conversion {
    Pdf,
    Image(ImageLimit),
}

impl Conversion {
    fn parse(first: &OsStr, rest: &[OsString]) -> Option<Self> {
        if first == pdf::ARGUMENT && rest.is_empty() {
            return Some(Self::Pdf);
        }
        let [side, bytes] = rest else { return None };
        let limit = ImageLimit { side: side.to_str()?.parse().ok()?, bytes: bytes.to_str()?.parse().ok()? };
        (first == scaling::ARGUMENT).then_some(Self::Image(limit))
    }

    fn run(&self, input: &[u8]) -> Option<Vec<u8>> {
        match self {
            Self::Pdf => pdf::to_text(input).map(String::into_bytes),
            Self::Image(limit) => scaling::scale(input, *limit),
        }
    }
}

/// Runs the helper if these arguments, which follow `__run`, name one of its conversions.
pub fn main(first: &OsStr, rest: &[OsString]) -> Option<ExitCode> {
    let conversion = Conversion::parse(first, rest)?;
    limit(Resource::As, MEMORY);
    limit(Resource::Cpu, DEADLINE.as_secs());
    limit(Resource::Core, 0);
    let work = move || -> io::Result<bool> {
        let mut input = Vec::new();
        io::stdin().read_to_end(&mut input)?;
        let Some(output) = conversion.run(&input) else { return Ok(false) };
        io::stdout().write_all(&output)?;
        Ok(true)
    };
    let done = std::thread::Builder::new().stack_size(STACK).spawn(work).map(std::thread::JoinHandle::join);
    Some(match done {
        Ok(Ok(Ok(true))) => ExitCode::SUCCESS,
        Ok(Ok(Ok(false) | Err(_)) | Err(_)) | Err(_) => ExitCode::FAILURE,
    })
}

/// Sets a resource limit. If that fails, the daemon still ends the process after a timeout.
fn limit(resource: Resource, most: u64) {
    let maximum = getrlimit(resource).maximum;
    let most = maximum.map_or(most, |maximum| maximum.min(most));
    let _ = setrlimit(resource, Rlimit { current: Some(most), maximum });
}
