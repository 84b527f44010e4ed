//! Globs of bounded size. Globs come from untrusted sources (a model, a project, the operator), and
//! `globset` parses nested braces recursively: a deeply nested pattern overflows the stack, which
//! ends the whole daemon. All globs are therefore built here, and clippy forbids `globset`'s own
//! constructors elsewhere.

use globset::{GlobBuilder, GlobMatcher};

/// The longest pattern, in bytes.
pub(crate) const MAX_PATTERN_BYTES: usize = 1024;

/// The deepest nesting of braces.
const MAX_BRACE_DEPTH: usize = 4;

/// The most alternatives in all braces of one pattern together.
const MAX_ALTERNATIVES: usize = 100;

/// The reason why a text is not accepted as a glob.
#[derive(Debug, thiserror::Error)]
pub enum BadGlob {
    #[error("it is longer than {MAX_PATTERN_BYTES} bytes")]
    TooLong,
    #[error("its braces are nested more than {MAX_BRACE_DEPTH} deep")]
    TooDeep,
    #[error("its braces have more than {MAX_ALTERNATIVES} alternatives")]
    TooManyAlternatives,
    #[error("{}", .0.kind())]
    Syntax(#[from] globset::Error),
}

/// What `*` matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StarMatches {
    /// Anything but `/`; only `**` crosses path components.
    WithinPart,
    Anything,
}

/// Compiles a glob.
///
/// # Errors
///
/// If the text is not a glob, or exceeds one of the bounds.
pub fn glob(text: &str, star: StarMatches) -> Result<GlobMatcher, BadGlob> {
    check(text)?;
    #[expect(clippy::disallowed_methods, reason = "the one place that builds globs, after `check`")]
    let mut builder = GlobBuilder::new(text);
    Ok(builder.literal_separator(star == StarMatches::WithinPart).build()?.compile_matcher())
}

/// Checks that a text stays within the bounds, for patterns that another crate compiles.
///
/// # Errors
///
/// If it exceeds one of them.
pub fn check(text: &str) -> Result<(), BadGlob> {
    if text.len() > MAX_PATTERN_BYTES {
        return Err(BadGlob::TooLong);
    }
    let (mut depth, mut alternatives) = (0_usize, 0);
    // In brackets or after a backslash a brace is literal. It is counted anyway.
    for byte in text.bytes() {
        match byte {
            b'{' => {
                depth += 1;
                alternatives += 1;
            }
            b'}' => depth = depth.saturating_sub(1),
            b',' => alternatives += 1,
            _ => {}
        }
        if depth > MAX_BRACE_DEPTH {
            return Err(BadGlob::TooDeep);
        }
        if alternatives > MAX_ALTERNATIVES {
            return Err(BadGlob::TooManyAlternatives);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_that_could_exhaust_the_stack_is_refused_before_parsing() {
        for depth in [5, 2_000, 20_000, 400_000] {
            let nested = format!("{}a{}", "{".repeat(depth), "}".repeat(depth));
            assert!(glob(&nested, StarMatches::Anything).is_err(), "{depth}");
            assert!(glob(&"{".repeat(depth), StarMatches::Anything).is_err(), "{depth}");
            assert!(glob(&"{}".repeat(depth.max(101)), StarMatches::Anything).is_err(), "{depth}");
        }
        assert!(matches!(glob(&"a".repeat(MAX_PATTERN_BYTES + 1), StarMatches::Anything), Err(BadGlob::TooLong)));
        assert!(matches!(
            glob(&format!("{{{}}}", "a,".repeat(200)), StarMatches::Anything),
            Err(BadGlob::TooManyAlternatives)
        ));
        // An unbalanced brace must not reset the count.
        assert!(matches!(glob("}}}}{{{{{a}}}}}", StarMatches::Anything), Err(BadGlob::TooDeep)));
        assert!(matches!(glob("[{]\\{{{{{", StarMatches::Anything), Err(BadGlob::TooDeep)));
    }

    #[test]
    fn common_glob_patterns_compile() {
        for pattern in ["**/*.{rs,toml}", "src/**/{a,{b,c{d,e}}}.ts", "[!a-z]?", "mcp__*", "*.example.com"] {
            assert!(glob(pattern, StarMatches::WithinPart).is_ok(), "{pattern}");
        }
        // The largest patterns must compile too: `globset` panics on a matcher that it cannot
        // build.
        for text in ["*?".repeat(512), "[!a]".repeat(256), "**/".repeat(341), "{*,?}".repeat(50)] {
            assert!(glob(&text, StarMatches::WithinPart).is_ok(), "{text}");
        }
    }
}
