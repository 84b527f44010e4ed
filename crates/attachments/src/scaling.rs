//! Scales images. Runs in the helper process only.

use std::io::Cursor;

use image::codecs::jpeg::JpegEncoder;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits, imageops::FilterType};

use crate::ImageLimit;

/// The argument after `__run`.
pub(crate) const ARGUMENT: &str = "image";

/// The longest side in pixels that is decoded, and the most bytes that the decoder may allocate.
const MAX_SIDE: u32 = 30_000;
const MAX_MEMORY: u64 = 512 << 20;

const QUALITY: u8 = 85;

/// Once the side is shorter than this, no smaller version is tried.
const SMALLEST_SIDE: u32 = 64;

type Encode = fn(&DynamicImage) -> Option<Vec<u8>>;

/// Returns the image within the limit, or None if it cannot be read or made small enough.
pub(crate) fn scale(bytes: &[u8], limit: ImageLimit) -> Option<Vec<u8>> {
    let (image, format) = decode(bytes)?;
    let mut side = limit.side.max(1);
    loop {
        let scaled = fit(&image, side);
        // JPEG blurs the text of screenshots, so it is used only for photographs and where a PNG is
        // too large.
        let encoders: &[Encode] = if format == ImageFormat::Jpeg { &[jpeg] } else { &[png, jpeg] };
        let encoded = encoders.iter().filter_map(|encode| encode(&scaled)).find(|file| file.len() <= limit.bytes);
        if encoded.is_some() || side < SMALLEST_SIDE {
            return encoded;
        }
        side = side.min(scaled.width().max(scaled.height())) * 3 / 4;
    }
}

fn decode(bytes: &[u8]) -> Option<(DynamicImage, ImageFormat)> {
    let mut reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format().ok()?;
    let mut limits = Limits::default();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    limits.max_alloc = Some(MAX_MEMORY);
    reader.limits(limits);
    let format = reader.format()?;
    let mut decoder = reader.into_decoder().ok()?;
    // Phones store a photograph in the orientation of the sensor, and how to rotate it in the
    // metadata.
    let orientation = decoder.orientation().ok();
    let mut image = DynamicImage::from_decoder(decoder).ok()?;
    if let Some(orientation) = orientation {
        image.apply_orientation(orientation);
    }
    Some((image, format))
}

fn fit(image: &DynamicImage, side: u32) -> DynamicImage {
    if image.width().max(image.height()) <= side {
        return image.clone();
    }
    image.resize(side, side, FilterType::Triangle)
}

fn png(image: &DynamicImage) -> Option<Vec<u8>> {
    let mut file = Cursor::new(Vec::new());
    image.write_to(&mut file, ImageFormat::Png).ok()?;
    Some(file.into_inner())
}

/// Encodes as JPEG, which has no transparency: transparent pixels become white.
fn jpeg(image: &DynamicImage) -> Option<Vec<u8>> {
    let mut opaque = image.to_rgba8();
    for pixel in opaque.pixels_mut() {
        let alpha = u32::from(pixel.0[3]);
        for part in &mut pixel.0[..3] {
            let blended = (u32::from(*part) * alpha + 255 * (255 - alpha)) / 255;
            *part = u8::try_from(blended).unwrap_or(u8::MAX);
        }
    }
    let opaque = DynamicImage::ImageRgba8(opaque).to_rgb8();
    let mut file = Vec::new();
    JpegEncoder::new_with_quality(&mut file, QUALITY).encode_image(&opaque).ok()?;
    Some(file)
}

#[cfg(test)]
mod tests {
    use image::{Rgba, RgbaImage};

    use super::*;
    use crate::read_header;

    /// Creates an image with noise, which compresses badly.
    fn noisy(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
        let noise = |x: u32, y: u32| {
            let mixed = (x.wrapping_mul(2_654_435_761) ^ y.wrapping_mul(40_503)).wrapping_mul(2_246_822_519);
            let [red, green, blue, _] = mixed.to_le_bytes();
            Rgba([red, green, blue, 255])
        };
        let image = DynamicImage::ImageRgba8(RgbaImage::from_fn(width, height, noise));
        let mut file = Cursor::new(Vec::new());
        image.to_rgb8().write_to(&mut file, format).unwrap();
        file.into_inner()
    }

    #[test]
    fn a_large_image_keeps_its_shape_within_the_limit() {
        let limit = ImageLimit { side: 100, bytes: 1 << 20 };
        for (format, mime) in [(ImageFormat::Png, "image/png"), (ImageFormat::Jpeg, "image/jpeg")] {
            let scaled = scale(&noisy(300, 150, format), limit).unwrap();
            let header = read_header(&scaled).unwrap();
            assert_eq!((header.mime, header.pixels), (mime, Some((100, 50))));
        }
    }

    #[test]
    fn a_file_with_too_many_bytes_becomes_a_jpeg_and_then_smaller() {
        let file = noisy(200, 200, ImageFormat::Png);
        for (bytes, is_smaller) in [(70_000, false), (4_000, true)] {
            let scaled = scale(&file, ImageLimit { side: 200, bytes }).unwrap();
            let header = read_header(&scaled).unwrap();
            assert!(scaled.len() <= bytes, "{}", scaled.len());
            assert_eq!((header.mime, header.pixels.unwrap().0 < 200), ("image/jpeg", is_smaller));
        }
        assert_eq!(scale(&file, ImageLimit { side: 200, bytes: 100 }), None);
    }

    #[test]
    fn the_same_image_always_becomes_the_same_bytes() {
        let file = noisy(120, 80, ImageFormat::Png);
        let limit = ImageLimit { side: 50, bytes: 1 << 20 };
        assert_eq!(scale(&file, limit), scale(&file, limit));
    }

    #[test]
    fn a_truncated_image_or_one_that_claims_to_be_huge_is_refused() {
        let limit = ImageLimit { side: 100, bytes: 1 << 20 };
        let mut file = noisy(300, 150, ImageFormat::Png);
        assert_eq!(scale(&file[..40], limit), None);
        // The width and the height in the PNG header.
        file[16..24].copy_from_slice(&[0, 0, 0x75, 0x30, 0, 0, 0x75, 0x30]);
        assert_eq!(scale(&file, limit), None);
        assert_eq!(scale(b"no image", limit), None);
    }
}
