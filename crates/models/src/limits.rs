//! Bounds on what a provider may send: each event, each tool call, each answer and each list. Pure.
//!
//! No provider comes near them. They keep a broken or hostile server from filling the daemon's
//! memory, which all sessions share. `docs/models.md` lists them.

use crate::failure::Failure;

const MIB: usize = 1 << 20;

/// The most bytes of one line or one event of a stream.
pub(crate) const EVENT: usize = 8 * MIB;
/// The most bytes of one answer, all events together.
pub(crate) const ANSWER: usize = 128 * MIB;
/// The most bytes of an answer that is one JSON document.
pub(crate) const DOCUMENT: usize = 16 * MIB;
/// The most bytes that are read of an error's body. The rest is dropped.
pub(crate) const ERROR_BODY: usize = 64 << 10;
/// The most bytes of a list of models.
pub(crate) const LIST: usize = 16 * MIB;
/// The most bytes of one tool call's arguments, or of one signature.
const CALL: usize = 4 * MIB;
/// The most bytes that are kept until the end of an answer: all calls, signatures and other opaque
/// values.
const KEPT: usize = 16 * MIB;
/// The most blocks of one answer: texts, thoughts and calls.
const BLOCKS: usize = 4_096;

/// The most tool calls of one answer. All of them are planned at once, and each is recorded and
/// shown.
const CALLS: usize = 128;

/// Counts what a fold keeps of one answer, and returns an error beyond the limits.
#[derive(Debug, Default)]
pub(crate) struct AnswerMeter {
    blocks: usize,
    calls: usize,
    kept: usize,
}

impl AnswerMeter {
    /// Counts a new block and the bytes that are kept of its beginning.
    pub(crate) fn begin(&mut self, bytes: usize) -> Result<(), Failure> {
        self.blocks += 1;
        if self.blocks > BLOCKS {
            return Err(Failure::too_long(&format!("the answer has more than {BLOCKS} parts")));
        }
        self.keep(bytes)
    }

    /// Counts a new tool call.
    pub(crate) fn count_call(&mut self) -> Result<(), Failure> {
        self.calls += 1;
        if self.calls > CALLS {
            return Err(Failure::too_long(&format!("the answer has more than {CALLS} tool calls")));
        }
        Ok(())
    }

    /// Counts bytes that are kept until the end of the answer.
    pub(crate) fn keep(&mut self, bytes: usize) -> Result<(), Failure> {
        self.kept = self.kept.saturating_add(bytes);
        if self.kept > KEPT {
            let limit = KEPT / MIB;
            return Err(Failure::too_long(&format!("the answer's tool calls and signatures exceed {limit} MiB")));
        }
        Ok(())
    }

    /// Appends a piece of a call's arguments or of a signature.
    pub(crate) fn extend(&mut self, arguments: &mut String, piece: &str) -> Result<(), Failure> {
        if arguments.len() + piece.len() > CALL {
            let limit = CALL / MIB;
            return Err(Failure::too_long(&format!("one tool call or signature exceeds {limit} MiB")));
        }
        self.keep(piece.len())?;
        arguments.push_str(piece);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
