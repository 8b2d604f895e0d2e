//! A token that is recognized wherever it appears, even in pieces and as numbers.

use std::fmt::Write as _;

/// The token. It is longer than a row of any hex dump, so some row shows a whole piece of it.
pub const SECRET: &str = "Zq7wK9xV2pL4mB6cT8nR3yH5gJ1fDsUeXaWoQvNiMkPtLzSb";

/// This many of its bytes in a row are no accident.
const PIECE: usize = 7;

/// Panics when the text shows a piece of the token: as it is, in base64, or as bytes in decimal or
/// hexadecimal.
#[track_caller]
pub fn assert_hidden(text: &str) {
    let letters = [plain(), base64(), decimal()].concat();
    let digits = hexadecimal();
    for line in text.lines() {
        let bare: String = line.chars().filter(|c| !c.is_whitespace()).collect();
        let lower = bare.to_ascii_lowercase();
        let is_shown = letters.iter().any(|piece| bare.contains(piece))
            || digits.iter().any(|piece| lower.contains(piece));
        assert!(!is_shown, "the token is in: {line}");
    }
}

fn plain() -> Vec<String> {
    pieces().map(str::to_owned).collect()
}

/// The middle of each piece's base64, whatever comes before and after the piece.
fn base64() -> Vec<String> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let whole = SECRET.as_bytes().windows(9).map(|nine| {
        let groups = nine.chunks(3).map(|three| {
            three
                .iter()
                .fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte))
        });
        let digits = groups.flat_map(|bits| [18, 12, 6, 0].map(|shift| bits >> shift & 63));
        digits.map(|digit| char::from(DIGITS[digit])).collect()
    });
    whole.collect()
}

fn decimal() -> Vec<String> {
    let numbers = pieces().map(|piece| {
        let numbers: Vec<String> = piece.bytes().map(|byte| byte.to_string()).collect();
        numbers.join(",")
    });
    numbers.collect()
}

fn hexadecimal() -> Vec<String> {
    let digits = pieces().map(|piece| {
        piece.bytes().fold(String::new(), |mut digits, byte| {
            let _ = write!(digits, "{byte:02x}");
            digits
        })
    });
    digits.collect()
}

fn pieces() -> impl Iterator<Item = &'static str> {
    (0..=SECRET.len() - PIECE).map(|start| &SECRET[start..start + PIECE])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_recognized_in_every_disguise() {
        let row = format!("X-Consul-Token: {SECRET}");
        for shown in [
            row.clone(),
            format!("{:?}", row.as_bytes()),
            format!("{:x?}", row.as_bytes()).replace(", ", ""),
            "bytes 5a71 3777 4b39 7856 Zq7wK9xV".to_owned(),
            "00 5a 71 37 77 4b 39 78 56".to_owned(),
            // `printf 'a:Zq7wK9xV2pL4mB6c' | base64`
            "YTpacTd3Szl4VjJwTDRtQjZj".to_owned(),
        ] {
            assert!(
                std::panic::catch_unwind(|| assert_hidden(&shown)).is_err(),
                "{shown}"
            );
        }
        assert_hidden("X-Consul-Token: hidden, Zq7wK, Token(hidden)");
    }
}
