//! Recognises images by their bytes: format, size in pixels, and whether the file is complete. A
//! provider permanently refuses a conversation that contains one bad image, so damaged images are
//! not sent.

/// An image in a format that models accept.
#[derive(Debug, PartialEq, Eq)]
pub struct Image {
    pub mime: &'static str,
    /// Width and height; None if the file is damaged or truncated.
    pub pixels: Option<(u32, u32)>,
}

/// Recognises an image. Returns None if the bytes are not an image in one of these formats.
pub fn read_header(bytes: &[u8]) -> Option<Image> {
    let (mime, pixels) = if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        ("image/png", png(bytes))
    } else if bytes.starts_with(b"\xff\xd8\xff") {
        ("image/jpeg", jpeg(bytes))
    } else if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
        ("image/gif", gif(bytes))
    } else if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        ("image/webp", webp(bytes))
    } else {
        return None;
    };
    Some(Image { mime, pixels: pixels.filter(|(width, height)| *width > 0 && *height > 0) })
}

/// Reads the size of a PNG. Returns None unless every chunk up to the last one is complete.
fn png(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut pixels = None;
    let mut at = 8;
    loop {
        let length = usize::try_from(big(bytes, at, 4)?).ok()?;
        let kind = bytes.get(at + 4..at + 8)?;
        let end = at.checked_add(length)?.checked_add(12)?;
        bytes.get(at..end)?;
        match kind {
            b"IHDR" => pixels = Some((big(bytes, at + 8, 4)?, big(bytes, at + 12, 4)?)),
            b"IEND" => return pixels,
            _ => {}
        }
        at = end;
    }
}

/// Reads the size of a JPEG from the segments before the image data, which end with a marker.
fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut pixels = None;
    let mut at = 2;
    loop {
        if *bytes.get(at)? != 0xff {
            return None;
        }
        let marker = *bytes.get(at + 1)?;
        let length = usize::try_from(big(bytes, at + 2, 2)?).ok()?;
        match marker {
            // A fill byte.
            0xff => at += 1,
            0xda => break,
            _ => {
                let is_size = (0xc0..=0xcf).contains(&marker) && !matches!(marker, 0xc4 | 0xc8 | 0xcc);
                if is_size {
                    pixels = Some((big(bytes, at + 7, 2)?, big(bytes, at + 5, 2)?));
                }
                at += 2 + length;
            }
        }
    }
    let ends = bytes.get(at..)?.windows(2).any(|pair| pair == b"\xff\xd9");
    pixels.filter(|_| ends)
}

fn gif(bytes: &[u8]) -> Option<(u32, u32)> {
    let last = bytes.iter().rev().find(|byte| **byte != 0)?;
    (*last == 0x3b && bytes.len() > 13).then_some((little(bytes, 6, 2)?, little(bytes, 8, 2)?))
}

fn webp(bytes: &[u8]) -> Option<(u32, u32)> {
    let whole = usize::try_from(little(bytes, 4, 4)?).ok()?.checked_add(8)?;
    bytes.get(..whole)?;
    match bytes.get(12..16)? {
        b"VP8X" => Some((little(bytes, 24, 3)? + 1, little(bytes, 27, 3)? + 1)),
        b"VP8L" => {
            let bits = little(bytes, 21, 4)?;
            Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
        }
        b"VP8 " => Some((little(bytes, 26, 2)? & 0x3fff, little(bytes, 28, 2)? & 0x3fff)),
        _ => None,
    }
}

fn big(bytes: &[u8], at: usize, length: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(length)?)?;
    Some(bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

fn little(bytes: &[u8], at: usize, length: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(length)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    /// Images of one pixel each, as common programs write them; the PNG has 3 by 2 pixels.
    const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAASFvFNAAAAC0lEQVR4nGNggAEAAA4AAa4nZ9oAAAAASUVORK5CYII=";
    const GIF: &str = "R0lGODlhAQABAIAAAP///////yH5BAEKAAEALAAAAAABAAEAAAICTAEAOw==";
    const WEBP: &str = "UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA";
    const LOSSLESS: &str = "UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==";

    fn jpeg_of(width: u8, height: u8) -> Vec<u8> {
        let mut bytes = vec![0xff, 0xd8, 0xff, 0xe0, 0, 4, 0, 0];
        bytes.extend([0xff, 0xff, 0xc2, 0, 11, 8, 0, height, 0, width, 1, 0, 0x11, 0]);
        bytes.extend([0xff, 0xda, 0, 2, 1, 2, 3, 0xff, 0xd9]);
        bytes
    }

    fn images() -> Vec<(&'static str, (u32, u32), Vec<u8>)> {
        let decode = |text| STANDARD.decode(text).unwrap();
        vec![
            ("image/png", (3, 2), decode(PNG)),
            ("image/gif", (1, 1), decode(GIF)),
            ("image/webp", (1, 1), decode(WEBP)),
            ("image/webp", (1, 1), decode(LOSSLESS)),
            ("image/jpeg", (7, 9), jpeg_of(7, 9)),
        ]
    }

    #[test]
    fn kind_and_size_are_read_from_the_bytes() {
        for (mime, pixels, bytes) in images() {
            assert_eq!(read_header(&bytes), Some(Image { mime, pixels: Some(pixels) }), "{mime}");
        }
        assert_eq!(read_header(b"BM and so on"), None);
    }

    #[test]
    fn a_truncated_image_is_damaged_and_nothing_panics() {
        for (mime, _, bytes) in images() {
            for length in 12..bytes.len() {
                let image = read_header(&bytes[..length]);
                assert_eq!(image, Some(Image { mime, pixels: None }), "{mime} cut to {length}");
            }
        }
    }
}
