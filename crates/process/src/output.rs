//! The output of a command: keeps the beginning and the end, cuts the middle, and makes it
//! readable. Knows bytes and text only.

use std::collections::VecDeque;
use std::path::PathBuf;

/// Output of a command, at most `limit` bytes: a quarter from the beginning and three quarters from
/// the end.
pub struct Output {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_limit: usize,
    tail_limit: usize,
    total: u64,
    /// The file with the complete output, which is named where something is cut.
    kept_in: Option<PathBuf>,
}

impl Output {
    pub fn new(limit: usize) -> Self {
        let head_limit = limit / 4;
        let tail_limit = limit - head_limit;
        Self { head: Vec::new(), tail: VecDeque::new(), head_limit, tail_limit, total: 0, kept_in: None }
    }

    /// Sets the file that has the complete output.
    pub(crate) fn keep_in(&mut self, path: PathBuf) {
        self.kept_in = Some(path);
    }

    /// Returns whether this many more bytes exceed the limit.
    pub(crate) fn overflows_with(&self, more: usize) -> bool {
        self.total + more as u64 > (self.head_limit + self.tail_limit) as u64
    }

    /// Returns all bytes. Valid only as long as none were cut.
    pub fn bytes(&self) -> Vec<u8> {
        let (front, back) = self.tail.as_slices();
        [&self.head, front, back].concat()
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min(self.head_limit - self.head.len()));
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.tail_limit)..];
        let surplus = (self.tail.len() + rest.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..surplus);
        self.tail.extend(rest);
    }

    /// Takes the collected output. An incomplete character at the end remains for the next call.
    pub fn take(&mut self) -> Self {
        let mut next = Self::new(self.head_limit + self.tail_limit);
        next.kept_in.clone_from(&self.kept_in);
        let mut taken = std::mem::replace(self, next);
        let kept = taken.head.len() + taken.tail.len();
        let end: Vec<u8> = taken.head.iter().chain(&taken.tail).skip(kept.saturating_sub(4)).copied().collect();
        let torn = end.len() - whole_characters(&end).len();
        for _ in 0..torn {
            let _ = taken.tail.pop_back().or_else(|| taken.head.pop());
        }
        taken.total -= torn as u64;
        self.push(&end[end.len() - torn..]);
        taken
    }

    pub fn is_cut(&self) -> bool {
        self.cut() > 0
    }

    fn cut(&self) -> u64 {
        self.total - (self.head.len() + self.tail.len()) as u64
    }

    /// Returns the collected output, with a note where something is missing.
    pub fn text(&self) -> String {
        let (front, back) = self.tail.as_slices();
        if !self.is_cut() {
            return readable(&self.bytes());
        }
        let head = whole_characters(&self.head);
        let tail = [front, back].concat();
        let tail = from_line_start(&tail);
        let cut = self.total - (head.len() + tail.len()) as u64;
        let kept = self.kept_in.as_ref().map(|path| format!("; all of it is in {}, for read_file", path.display()));
        let kept = kept.unwrap_or_default();
        format!("{}\n\n[{cut} bytes of output cut here{kept}]\n\n{}", readable(head), readable(tail))
    }

    /// Returns the end of the output, for live display.
    pub fn live(&self, limit: usize) -> String {
        let kept = [self.tail.as_slices().0, self.tail.as_slices().1].concat();
        let all = if self.is_cut() { kept } else { [self.head.as_slice(), &kept].concat() };
        let end = whole_characters(&all);
        if end.len() <= limit && !self.is_cut() {
            return readable(end);
        }
        let last = &end[end.len().saturating_sub(limit)..];
        format!("[earlier output not shown]\n{}", readable(from_line_start(last)))
    }
}

/// Returns the bytes without an incomplete character at the end.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    for back in 1..=bytes.len().min(3) {
        let at = bytes.len() - back;
        let needs = match bytes[at] {
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            0x80..=0xBF => continue,
            _ => 1,
        };
        return if needs > back { &bytes[..at] } else { bytes };
    }
    bytes
}

/// Skips to the start of a line if one begins soon, so that neither a character nor an escape
/// sequence is split. Otherwise skips to the start of a character.
fn from_line_start(bytes: &[u8]) -> &[u8] {
    let near = &bytes[..bytes.len().min(1024)];
    match near.iter().position(|byte| *byte == b'\n') {
        Some(at) => &bytes[at + 1..],
        None => &bytes[bytes.iter().take(3).take_while(|byte| (0x80..0xC0).contains(*byte)).count()..],
    }
}

/// Returns text as a terminal would show it: without escape sequences, with the final state of
/// lines that carriage returns overwrite, and with invalid UTF-8 replaced.
pub fn readable(bytes: &[u8]) -> String {
    let text = without_escapes(&String::from_utf8_lossy(bytes));
    let mut clean = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (body, end) = match line.strip_suffix('\n') {
            Some(body) => (body, "\n"),
            None => (line, ""),
        };
        let body = body.trim_end_matches('\r');
        clean.push_str(body.rsplit('\r').next().unwrap_or(body));
        clean.push_str(end);
    }
    clean
}

fn without_escapes(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\x1b' => skip_escape(&mut chars),
            '\x08' => {
                // A backspace removes the character before it, as in the overstruck bold type of
                // old manual pages.
                if !clean.ends_with('\n') {
                    clean.pop();
                }
            }
            '\n' | '\r' | '\t' => clean.push(c),
            c if c.is_control() => {}
            c => clean.push(c),
        }
    }
    clean
}

/// Consumes an escape sequence after its ESC (ECMA-48): CSI, a string sequence, or a short one.
fn skip_escape(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match chars.peek() {
        Some('[') => {
            chars.next();
            while chars.next_if(|c| matches!(c, '\x20'..='\x3f')).is_some() {}
            chars.next_if(|c| matches!(c, '\x40'..='\x7e'));
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            // The sequence ends with BEL or ESC \. A line break also ends it, so that an incomplete
            // sequence does not swallow the rest.
            while let Some(c) = chars.next_if(|c| *c != '\n') {
                if c == '\x07' || (c == '\x1b' && chars.next_if_eq(&'\\').is_some()) {
                    return;
                }
            }
        }
        Some(_) => {
            while chars.next_if(|c| matches!(c, '\x20'..='\x2f')).is_some() {}
            chars.next_if(|c| matches!(c, '\x30'..='\x7e'));
        }
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(parts: &[&[u8]]) -> String {
        let mut output = Output::new(1 << 20);
        parts.iter().for_each(|part| output.push(part));
        output.text()
    }

    #[test]
    fn a_character_that_comes_in_two_parts_is_whole() {
        assert_eq!(text_of(&[b"gr\xc3", b"\xbcn"]), "grün");
        let mut output = Output::new(1 << 20);
        output.push(b"gr\xc3");
        assert_eq!(output.live(100), "gr");
    }

    #[test]
    fn taken_output_is_removed_and_no_character_is_split() {
        let mut output = Output::new(1 << 20);
        output.push(b"gr\xc3");
        assert_eq!(output.take().text(), "gr");
        output.push(b"\xbcn");
        assert_eq!(output.take().text(), "\u{fc}n");
        assert_eq!(output.take().text(), "");
    }

    #[test]
    fn invalid_bytes_are_replaced() {
        assert_eq!(text_of(&[b"a\xffb"]), "a\u{fffd}b");
    }

    #[test]
    fn escapes_and_overwritten_lines_are_removed() {
        assert_eq!(text_of(&[b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07x\x1b(B"]), "red x");
        assert_eq!(text_of(&[b"10%\r50%\r100%\r\ndone\r\n"]), "100%\ndone\n");
        assert_eq!(text_of(&[b"b\x08bold \x1b]8;;http://x\x1b\\link"]), "bold link");
        assert_eq!(text_of(&[b"torn \x1b]0;title\nnext"]), "torn \nnext");
    }

    #[test]
    fn the_middle_of_a_flood_is_cut_and_the_note_counts_it() {
        let mut output = Output::new(40);
        for number in 0..1000 {
            output.push(format!("{number}\n").as_bytes());
        }
        assert!(output.is_cut());
        assert_eq!(
            output.text(),
            "0\n1\n2\n3\n4\n\n\n[3852 bytes of output cut here]\n\n993\n994\n995\n996\n997\n998\n999\n"
        );
        assert_eq!(output.live(10), "[earlier output not shown]\n998\n999\n");
    }

    #[test]
    fn one_push_larger_than_everything_is_cut_too() {
        let mut output = Output::new(8);
        output.push(b"abcdefghijklmnop");
        assert_eq!(output.text(), "ab\n\n[8 bytes of output cut here]\n\nklmnop");
    }
}
