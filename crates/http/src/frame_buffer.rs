//! The frames of one stream: numbered, sent in order, and kept until the client acknowledges them
//! or space is needed.
//!
//! No I/O. `client` decides which stream reads and how much all buffers of a client may hold.

use std::collections::VecDeque;

use bytes::Bytes;

/// One message for the client, with its number on the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) number: u64,
    pub(crate) message: Bytes,
}

#[derive(Debug, Default)]
pub(crate) struct FrameBuffer {
    frames: VecDeque<Frame>,
    /// How many frames at the front were sent.
    sent: usize,
    sent_bytes: usize,
    unsent_bytes: usize,
    /// The number of the last frame that was removed: the client acknowledged it, or space was
    /// needed.
    gone: u64,
}

/// The client asks to resume at a frame that is no longer kept.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FramesLost;

impl FrameBuffer {
    pub(crate) fn push(&mut self, frame: Frame) {
        self.unsent_bytes += frame.message.len();
        self.frames.push_back(frame);
    }

    /// The next frames: about `budget` bytes, and at least one frame if there is one. They are kept
    /// until they are acknowledged.
    pub(crate) fn take(&mut self, budget: usize) -> Vec<Frame> {
        let mut taken = Vec::new();
        let mut bytes = 0;
        while let Some(frame) = self.frames.get(self.sent)
            && (taken.is_empty() || bytes + frame.message.len() <= budget)
        {
            bytes += frame.message.len();
            taken.push(frame.clone());
            self.sent += 1;
        }
        self.sent_bytes += bytes;
        self.unsent_bytes -= bytes;
        taken
    }

    /// Continues after this frame, and thereby acknowledges all frames up to it.
    pub(crate) fn rewind(&mut self, after: u64) -> Result<(), FramesLost> {
        if after < self.gone {
            return Err(FramesLost);
        }
        self.gone = after;
        while self.frames.front().is_some_and(|frame| frame.number <= after) {
            self.pop();
        }
        self.sent = 0;
        self.unsent_bytes += std::mem::take(&mut self.sent_bytes);
        Ok(())
    }

    /// Drops the oldest frame if it was sent.
    pub(crate) fn drop_sent(&mut self) -> bool {
        let Some(frame) = self.frames.front().filter(|_| self.sent > 0) else { return false };
        self.gone = frame.number;
        self.pop();
        true
    }

    /// The number of the oldest frame that could be dropped.
    pub(crate) fn oldest_sent(&self) -> Option<u64> {
        self.frames.front().filter(|_| self.sent > 0).map(|frame| frame.number)
    }

    pub(crate) fn sent_bytes(&self) -> usize {
        self.sent_bytes
    }

    pub(crate) fn unsent_bytes(&self) -> usize {
        self.unsent_bytes
    }

    fn pop(&mut self) {
        let Some(frame) = self.frames.pop_front() else { return };
        if self.sent > 0 {
            self.sent -= 1;
            self.sent_bytes -= frame.message.len();
        } else {
            self.unsent_bytes -= frame.message.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(number: u64) -> Frame {
        Frame { number, message: Bytes::from(vec![b'x'; usize::try_from(number % 7).unwrap()]) }
    }

    fn numbers(frames: &[Frame]) -> Vec<u64> {
        frames.iter().map(|frame| frame.number).collect()
    }

    #[test]
    fn a_resumed_stream_repeats_frames_after_the_last_one_that_arrived() {
        let mut buffer = FrameBuffer::default();
        (1..=5).for_each(|number| buffer.push(frame(number)));
        assert_eq!(numbers(&buffer.take(1000)), [1, 2, 3, 4, 5]);
        assert!(buffer.take(1000).is_empty());
        buffer.rewind(3).unwrap();
        assert_eq!(numbers(&buffer.take(1000)), [4, 5]);
        buffer.rewind(5).unwrap();
        assert!(buffer.take(1000).is_empty());
        assert_eq!(buffer.rewind(4), Err(FramesLost), "it has said that it has 5");
    }

    #[test]
    fn only_dropped_frames_are_lost() {
        let mut buffer = FrameBuffer::default();
        (1..=5).for_each(|number| buffer.push(frame(number)));
        buffer.take(0);
        buffer.take(0);
        assert!(buffer.drop_sent() && buffer.drop_sent());
        assert!(!buffer.drop_sent(), "an unsent frame was dropped");
        assert_eq!(buffer.rewind(1), Err(FramesLost));
        buffer.rewind(2).unwrap();
        assert_eq!(numbers(&buffer.take(1000)), [3, 4, 5]);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Push,
        Take(usize),
        /// The reader reconnects after it has received this many of the frames that were sent.
        Reconnect(usize),
        Drop,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => Just(Step::Push),
            2 => (0..20_usize).prop_map(Step::Take),
            1 => any::<usize>().prop_map(Step::Reconnect),
            1 => Just(Step::Drop),
        ]
    }

    proptest! {
        /// A reader that acknowledges what it received gets every frame once and in order, or an
        /// error that some are lost.
        #[test]
        fn a_reader_gets_every_frame_once_or_an_error(steps in prop::collection::vec(step(), 0..200)) {
            let mut buffer = FrameBuffer::default();
            let (mut pushed, mut got): (u64, Vec<u64>) = (0, Vec::new());
            for step in steps {
                match step {
                    Step::Push => {
                        pushed += 1;
                        buffer.push(frame(pushed));
                    }
                    Step::Take(budget) => got.extend(numbers(&buffer.take(budget))),
                    Step::Reconnect(at) => {
                        let arrived = at % (got.len() + 1);
                        got.truncate(arrived);
                        if buffer.rewind(got.last().copied().unwrap_or(0)).is_err() {
                            prop_assert!(buffer.gone > got.last().copied().unwrap_or(0));
                            return Ok(());
                        }
                    }
                    Step::Drop => {
                        buffer.drop_sent();
                    }
                }
                let expected: Vec<u64> = (1..=got.len() as u64).collect();
                prop_assert_eq!(&got, &expected);
                let held: usize = buffer.frames.iter().map(|frame| frame.message.len()).sum();
                prop_assert_eq!(buffer.sent_bytes() + buffer.unsent_bytes(), held);
            }
            got.extend(numbers(&buffer.take(usize::MAX)));
            prop_assert_eq!(got.len() as u64, pushed);
        }
    }
}
