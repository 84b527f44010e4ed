//! Converts images and PDFs that come from outside: images to a size that a provider accepts, PDFs
//! to text.
//!
//! Both formats are untrusted. A few kilobytes can decompress to gigabytes, and a PDF that refers
//! to itself overflows the stack of its reader, which would end the daemon with all its sessions.
//! The acpd binary is therefore started as `acpd __run pdf` or `acpd __run image SIDE BYTES`: it
//! reads the file from its standard input and writes the result to its standard output, under
//! limits on memory and time (`helper`). Its failure costs nothing else. `header` only looks at the
//! first bytes of an image and runs in the daemon.
//!
//! Knows no provider, no tool and no session.

mod header;
mod helper;
mod pdf;
mod scaling;

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;

pub use header::{Image, read_header};
pub use helper::main;

/// The hidden subcommand of the binary that serves as the helper.
const SUBCOMMAND: &str = "__run";

/// How long one conversion may take.
const DEADLINE: Duration = Duration::from_secs(20);

/// The largest file that is converted, in bytes.
pub const LARGEST_FILE: usize = 64 << 20;

/// The largest result, in bytes.
const LARGEST_RESULT: u64 = 16 << 20;

/// Limits the number of concurrent conversions, so that a prompt with many images does not use up
/// the memory.
static CONVERSIONS: Semaphore = Semaphore::const_new(2);

/// The limits of a provider for one image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ImageLimit {
    /// The longest side in pixels.
    pub side: u32,
    /// The size of the file in bytes.
    pub bytes: usize,
}

impl ImageLimit {
    /// Whether an image of this many bytes and pixels is within the limit. If the header of an
    /// image cannot be read, only its bytes count.
    pub fn admits(&self, bytes: usize, pixels: Option<(u32, u32)>) -> bool {
        bytes <= self.bytes && pixels.is_none_or(|(width, height)| width.max(height) <= self.side)
    }
}

/// Why a file was not converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    #[error("the file is larger than {} MiB", LARGEST_FILE >> 20)]
    TooLarge,
    #[error("the file takes more than {} seconds to read", DEADLINE.as_secs())]
    TooSlow,
    #[error("the file is damaged, or needs too much memory to read")]
    Unreadable,
    #[error("the helper process that reads attachments failed: {0}")]
    Helper(String),
}

impl From<io::Error> for ConvertError {
    fn from(error: io::Error) -> Self {
        Self::Helper(error.to_string())
    }
}

/// Starts the helper processes.
#[derive(Clone, Debug)]
pub struct Converter {
    /// The acpd binary.
    runner: PathBuf,
}

impl Converter {
    /// Creates a converter that starts this acpd binary.
    pub fn new(runner: impl Into<PathBuf>) -> Self {
        Self { runner: runner.into() }
    }

    /// Returns the text of a PDF, page by page. The text is empty if the pages are only pictures.
    ///
    /// # Errors
    ///
    /// If the file cannot be read within the limits, or if the helper cannot be started.
    pub async fn pdf_to_text(&self, pdf: &[u8]) -> Result<String, ConvertError> {
        let text = self.convert(&[pdf::ARGUMENT], pdf).await?;
        String::from_utf8(text).map_err(|_| ConvertError::Unreadable)
    }

    /// Returns an image within the limit, as PNG or JPEG. Only the first frame of an animation is
    /// kept.
    ///
    /// # Errors
    ///
    /// If the image cannot be read within the limits, or if the helper cannot be started.
    pub async fn scale(&self, image: &[u8], limit: ImageLimit) -> Result<Vec<u8>, ConvertError> {
        let (side, bytes) = (limit.side.to_string(), limit.bytes.to_string());
        self.convert(&[scaling::ARGUMENT, &side, &bytes], image).await
    }

    async fn convert(&self, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, ConvertError> {
        if input.len() > LARGEST_FILE {
            return Err(ConvertError::TooLarge);
        }
        let _permit = CONVERSIONS.acquire().await.map_err(|_| ConvertError::Helper("it is shut down".to_owned()))?;
        // Dropping the future ends the process.
        let converted = tokio::time::timeout(DEADLINE, self.run(arguments, input)).await;
        converted.map_err(|_| ConvertError::TooSlow)?
    }

    async fn run(&self, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, ConvertError> {
        let mut child = tokio::process::Command::new(&self.runner)
            .arg(SUBCOMMAND)
            .args(arguments)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(ConvertError::Helper("it has no pipes".to_owned()));
        };
        let write = async move {
            // The exit status reports a process that ended early.
            let _ = stdin.write_all(input).await;
        };
        let mut result = Vec::new();
        let mut limited = stdout.take(LARGEST_RESULT + 1);
        let ((), read) = tokio::join!(write, limited.read_to_end(&mut result));
        read?;
        if result.len() as u64 > LARGEST_RESULT {
            return Err(ConvertError::Unreadable);
        }
        if child.wait().await?.success() { Ok(result) } else { Err(ConvertError::Unreadable) }
    }
}
