//! Tests of frames that arrive in arbitrary pieces, and of every kind of bad input.

use proptest::prelude::*;

use super::*;

const LIMIT: usize = 64;

/// Everything that the decoder returns for these pieces and for the end of the stream.
fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Result<Bytes, FrameError>> {
    let mut decoder = Decoder::new(LIMIT);
    let mut out = Vec::new();
    for piece in pieces {
        decoder.push(piece);
        while let Some(step) = decoder.next() {
            out.push(step);
        }
    }
    while let Some(step) = decoder.finish() {
        out.push(step);
    }
    out
}

fn whole(bytes: &[u8]) -> Vec<Result<Bytes, FrameError>> {
    decode([bytes])
}

fn frames(frames: &[&'static str]) -> Vec<Result<Bytes, FrameError>> {
    frames.iter().map(|frame| Ok(Bytes::from_static(frame.as_bytes()))).collect()
}

#[test]
fn lines_may_end_in_crlf_and_blank_ones_are_skipped() {
    assert_eq!(whole(b"\r\n \n{\"a\":1}\r\n\n\t\r\n{}\n"), frames(&["{\"a\":1}", "{}"]));
}

#[test]
fn a_last_line_without_its_end_counts() {
    assert_eq!(whole(b"{}\n[1]"), frames(&["{}", "[1]"]));
    assert_eq!(whole(b"cont"), frames(&["cont"]));
    assert_eq!(whole(b"{}\n  "), frames(&["{}"]));
}

#[test]
fn content_length_framing_is_detected_in_any_letter_case() {
    let input = b"\n\ncontent-LENGTH:  2\r\n\r\n{}Content-Type: application/json\nContent-Length: 3\n\n[1]";
    assert_eq!(whole(input), frames(&["{}", "[1]"]));
    let mut decoder = Decoder::new(LIMIT);
    decoder.push(b"Content");
    assert!(decoder.next().is_none() && decoder.framing().is_none());
    decoder.push(b"-Length: 2\r\n\r\n{}");
    assert!(decoder.next().is_some());
    assert_eq!(decoder.framing(), Some(Framing::ContentLength));
}

#[test]
fn incomplete_and_empty_content_length_frames_are_dropped() {
    assert_eq!(whole(b"Content-Length: 0\r\n\r\nContent-Length: 9\r\n\r\n{}"), frames(&[]));
}

#[test]
fn bad_headers_are_fatal() {
    for input in [
        "Content-Length: x\r\n\r\n{}",
        "Content-Length: -1\r\n\r\n{}",
        "Content-Length:\r\n\r\n{}",
        "Content-Type: x\r\n\r\n{}",
        "Content-Length\r\n\r\n{}",
        "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        "Content-Length: 99999999999999999999999\r\n\r\n{}",
    ] {
        assert_eq!(whole(input.as_bytes()), [Err(FrameError::BadHeader)], "{input}");
    }
    let endless = format!("Content-Type: {}", "x".repeat(HEADER_LIMIT));
    assert_eq!(whole(endless.as_bytes()), [Err(FrameError::BadHeader)]);
}

#[test]
fn an_oversized_frame_is_reported_before_its_end_and_reading_continues() {
    let too_long = Some(Err(FrameError::TooLong { limit: 4 }));
    let brackets = Some(Ok(Bytes::from_static(b"{}")));
    let mut decoder = Decoder::new(4);
    decoder.push(b"12345");
    assert_eq!(decoder.next(), too_long);
    decoder.push(b"6789");
    assert_eq!(decoder.next(), None);
    assert!(decoder.buffer().is_empty(), "what is skipped is not kept");
    decoder.push(b"\n{}\n123456\n{}\n");
    assert_eq!(
        [decoder.next(), decoder.next(), decoder.next()],
        [brackets.clone(), too_long.clone(), brackets.clone()]
    );
    assert_eq!(decoder.next(), None);
    assert_eq!(decoder.framing(), Some(Framing::Lines));
    decoder.push(b"12345");
    assert_eq!((decoder.finish(), decoder.finish()), (too_long.clone(), None));

    let mut decoder = Decoder::new(4);
    decoder.push(b"Content-Length: 5\r\n\r\n12");
    assert_eq!(decoder.next(), too_long);
    assert_eq!(decoder.next(), None);
    assert!(decoder.buffer().is_empty(), "what is skipped is not kept");
    decoder.push(b"345Content-Length: 2\r\n\r\n{}");
    assert_eq!((decoder.next(), decoder.next()), (brackets, None));
    assert_eq!(decoder.framing(), Some(Framing::ContentLength));

    let mut decoder = Decoder::new(4);
    decoder.push(b"1234\r");
    assert_eq!(decoder.next(), None);
    decoder.push(b"\n");
    assert_eq!(decoder.next(), Some(Ok(Bytes::from_static(b"1234"))));
}

#[test]
fn a_byte_order_mark_before_the_first_message_is_skipped() {
    assert_eq!(whole(b"\xef\xbb\xbf{}\n{}"), frames(&["{}", "{}"]));
    assert_eq!(whole(b" \xef\xbb\xbf\r\nContent-Length: 2\r\n\r\n{}"), frames(&["{}"]));
    // Anywhere else, a byte order mark is kept, and so is half of one.
    assert_eq!(whole("{}\n\u{feff}{}".as_bytes()), frames(&["{}", "\u{feff}{}"]));
    assert_eq!(whole(b"\xef\xbb"), [Ok(Bytes::from_static(b"\xef\xbb"))]);
}

#[test]
fn a_message_with_line_breaks_becomes_one_line() {
    assert_eq!(encode(Framing::Lines, b"{\r\n\"a\": 1\n}"), "{  \"a\": 1 }\n");
    assert_eq!(encode(Framing::ContentLength, b"{\n}"), "Content-Length: 3\r\n\r\n{\n}");
}

/// Bytes that look enough like frames to reach every state.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"{\"id\":1}\n".to_vec()),
        Just(b"Content-Length: 3\r\n\r\n[1]".to_vec()),
        Just(b"content-type: x\n".to_vec()),
        Just(b"Content-Length: 70\n\n".to_vec()),
        Just(b"content".to_vec()),
        Just(BOM.to_vec()),
        prop::collection::vec(any::<u8>(), 0..80),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_bytes_cut_anywhere_give_the_same_frames(
        bytes in stream(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
        let expected = whole(&bytes);
        prop_assert_eq!(decode(pieces), expected.clone());
        prop_assert_eq!(decode(bytes.chunks(1)), expected);
    }

    #[test]
    fn encoded_messages_are_decoded_in_both_framings(
        messages in prop::collection::vec("\\{[a-z]{0,40}\\}", 0..6),
    ) {
        for framing in [Framing::Lines, Framing::ContentLength] {
            let bytes: Vec<u8> = messages.iter().flat_map(|message| encode(framing, message.as_bytes())).collect();
            let expected: Vec<_> = messages.iter().map(|message| Ok(Bytes::from(message.clone()))).collect();
            prop_assert_eq!(whole(&bytes), expected);
        }
    }
}
