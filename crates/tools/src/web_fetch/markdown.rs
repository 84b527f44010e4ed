//! Converts HTML to Markdown in a separate process.
//!
//! A page is untrusted text. A few hundred kilobytes can be nested so deeply that parsing takes
//! minutes, or that walking overflows the stack, which would end the daemon with all its sessions.
//! The acpd binary is therefore started as `acpd __run html`: it reads HTML from its standard input
//! and writes Markdown to its standard output, and only this process fails.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use htmd::HtmlToMarkdown;
use htmd::options::{BulletListMarker, Options};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The argument after `__run` that selects the converter.
pub(crate) const ARGUMENT: &str = "html";

const CONVERSION_TIMEOUT: Duration = Duration::from_secs(5);

/// Elements without readable content.
const SKIPPED: [&str; 9] = ["script", "style", "noscript", "template", "svg", "iframe", "object", "canvas", "head"];

/// The size of the stack, which is enough for badly nested pages.
const STACK: usize = 8 << 20;

/// The most memory that the process may use, in bytes. Ordinary pages need far less.
const MEMORY: u64 = 1 << 30;

/// Converts a page. Returns None if that fails. Dropping the future ends the process.
pub(super) async fn convert(html: &str, runner: &Path) -> Option<String> {
    tokio::time::timeout(CONVERSION_TIMEOUT, converted(html, runner)).await.ok()?.ok()
}

async fn converted(html: &str, runner: &Path) -> io::Result<String> {
    let mut child = tokio::process::Command::new(runner)
        .args([process::SUBCOMMAND, ARGUMENT])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let (Some(mut stdin), Some(mut stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("no pipes"));
    };
    let mut markdown = String::new();
    let write = async move {
        // If the process exits early, its status shows that.
        let _ = stdin.write_all(html.as_bytes()).await;
    };
    let ((), read) = tokio::join!(write, stdout.read_to_string(&mut markdown));
    read?;
    let status = child.wait().await?;
    if status.success() { Ok(markdown) } else { Err(io::Error::other(status.to_string())) }
}

/// The entry point of the process. It has no async runtime.
pub(crate) fn main() -> ExitCode {
    let work = || -> io::Result<()> {
        limit(Resource::As, MEMORY);
        limit(Resource::Cpu, CONVERSION_TIMEOUT.as_secs());
        limit(Resource::Core, 0);
        let mut html = String::new();
        io::stdin().read_to_string(&mut html)?;
        io::stdout().write_all(to_markdown(&html)?.as_bytes())
    };
    let done = std::thread::Builder::new().stack_size(STACK).spawn(work).map(std::thread::JoinHandle::join);
    match done {
        Ok(Ok(Ok(()))) => ExitCode::SUCCESS,
        Ok(Ok(Err(_)) | Err(_)) | Err(_) => ExitCode::FAILURE,
    }
}

/// Sets a resource limit. A failure is ignored, because the daemon ends the process after a while
/// anyway.
fn limit(resource: Resource, most: u64) {
    let maximum = getrlimit(resource).maximum;
    let most = maximum.map_or(most, |maximum| maximum.min(most));
    let _ = setrlimit(resource, Rlimit { current: Some(most), maximum });
}

fn to_markdown(html: &str) -> io::Result<String> {
    let options = Options { bullet_list_marker: BulletListMarker::Dash, ul_bullet_spacing: 1, ..Options::default() };
    let markdown = HtmlToMarkdown::builder().skip_tags(SKIPPED.to_vec()).options(options).build().convert(html)?;
    Ok(without_gaps(&markdown))
}

/// Reduces several blank lines, which come from the layout, to one.
fn without_gaps(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut blank = 0;
    for line in text.lines().map(str::trim_end) {
        blank = if line.is_empty() { blank + 1 } else { 0 };
        if blank <= 1 {
            clean.push_str(line);
            clean.push('\n');
        }
    }
    clean.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_becomes_markdown_without_scripts() {
        let html = "<html><head><title>T</title><style>p{}</style></head><body><h1>Hi</h1><script>x()</script>\
                    <p>A <a href=\"/b\">link</a> and <code>code</code>.</p><div></div><br><br><br><ul><li>one<li>two</ul></body></html>";
        assert_eq!(to_markdown(html).unwrap(), "# Hi\n\nA [link](/b) and `code`.\n\n- one\n- two");
    }
}
