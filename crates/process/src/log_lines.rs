//! Reads what a long-running child writes for its log, line by line. Its size and pace are limited,
//! whatever the child writes.

use std::time::Duration;

use domain::text::cut;
use tokio::io::{AsyncRead, AsyncReadExt};

/// After this many bytes, the output of a child is read more slowly.
const THROTTLE_AFTER_BYTES: u64 = 16 << 20;

/// Calls `on_line` with every line of a pipe until its end, as [`log_line`] returns it.
pub async fn follow_lines(mut pipe: impl AsyncRead + Unpin, limit: usize, mut on_line: impl FnMut(String)) {
    let mut note = |line: &[u8]| {
        if let Some(line) = log_line(&String::from_utf8_lossy(line), limit) {
            on_line(line);
        }
    };
    let mut line = Vec::new();
    let mut buffer = vec![0; 16 * 1024];
    let mut total = 0;
    while let Ok(length @ 1..) = pipe.read(&mut buffer).await {
        for byte in &buffer[..length] {
            if *byte == b'\n' {
                note(&std::mem::take(&mut line));
            } else if line.len() < 4 * limit {
                line.push(*byte);
            }
        }
        total += length as u64;
        if total > THROTTLE_AFTER_BYTES {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    note(&line);
}

/// Returns a line without control characters, cut to at most `limit` characters. None if nothing is
/// left to show.
pub fn log_line(line: &str, limit: usize) -> Option<String> {
    let line: String = line.chars().filter(|c| !c.is_control() || *c == '\t').take(limit + 1).collect();
    (!line.trim().is_empty()).then(|| cut(line.trim_end(), limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_cleaned_and_cut_and_blank_ones_are_skipped() {
        let mut lines = Vec::new();
        let output = format!("one\x1b \n\n \t\r\n{}\nlast", "x".repeat(100_000));
        follow_lines(output.as_bytes(), 10, |line| lines.push(line)).await;
        assert_eq!(lines, ["one", "xxxxxxxxxx…", "last"]);
    }
}
