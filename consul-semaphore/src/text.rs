//! Text from others, made safe for a terminal: it neither moves the cursor nor turns the direction of
//! what follows.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text with each unsafe character replaced, except for tabs and the ends of lines.
pub(crate) fn safe(text: &str) -> Cow<'_, str> {
    let stays = |c: char| matches!(c, '\n' | '\t') || is_safe(c);
    if text.chars().all(stays) {
        return Cow::Borrowed(text);
    }
    let safe = text.chars().map(|c| if stays(c) { c } else { '?' });
    Cow::Owned(safe.collect())
}

/// The same for JSON, where such characters occur in strings only, and may be escaped.
pub(crate) fn safe_json(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_safe) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if is_safe(c) {
            safe.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a `String` can't fail.
                let _ = write!(safe, "\\u{unit:04x}");
            }
        }
    }
    Cow::Owned(safe)
}

/// One line of safe text, and not a long one.
pub(crate) fn printable(text: &str) -> String {
    const MOST: usize = 60;
    let mut shown = one_line(text.chars().take(MOST));
    if text.chars().count() > MOST {
        shown.push('…');
    }
    shown
}

/// One line that fills at most so many columns of a terminal. If not all of it fits, it ends with a
/// dot of omission.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    let text = one_line(text.chars());
    if text.chars().map(width).sum::<usize>() <= columns {
        return text;
    }
    let mut filled = width('…');
    let fits = |c: &char| {
        filled += width(*c);
        filled <= columns
    };
    let mut shown: String = text.chars().take_while(fits).collect();
    shown.push('…');
    shown
}

fn one_line(text: impl Iterator<Item = char>) -> String {
    text.map(|c| if is_safe(c) { c } else { '?' }).collect()
}

/// The most columns that a character fills. All that fill two are from here on; some that fill one
/// are, too.
fn width(c: char) -> usize {
    const FIRST_WIDE: char = '\u{1100}';
    let is_narrow = c < FIRST_WIDE || ('\u{2010}'..'\u{2027}').contains(&c);
    if is_narrow { 1 } else { 2 }
}

/// Neither a control character, nor one that is invisible, ends a line or turns the direction of
/// text (Unicode Standard Annex 9 has the latter).
fn is_safe(c: char) -> bool {
    let is_hidden = matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}');
    !c.is_control() && !is_hidden
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAD: [char; 8] = [
        '\x1b', '\x07', '\r', '\u{9b}', '\u{202e}', '\u{2066}', '\u{2028}', '\u{200f}',
    ];

    #[test]
    fn nothing_that_moves_the_cursor_or_turns_text_around_is_left() {
        for bad in BAD {
            let text = format!("a{bad}b\n");
            assert_eq!(safe(&text), "a?b\n", "{bad:?}");
            assert_eq!(printable(&text), "a?b?", "{bad:?}");
        }
        for good in ["ä✓ 日本 🙂", "e\u{301}", "a\u{200d}b"] {
            assert_eq!(safe(good), good);
        }
    }

    #[test]
    fn json_stays_the_same_value() {
        for bad in BAD.into_iter().chain(['\u{e0041}']) {
            let value = format!("a{bad}b");
            let json = serde_json::to_string(&value).unwrap();
            let safe = safe_json(&json);
            assert!(safe.chars().all(is_safe), "{safe}");
            assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), value);
        }
    }

    #[test]
    fn a_line_is_cut_where_the_terminal_ends() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdef", 5), "abcd…");
        assert_eq!(cut("日本日本", 8), "日本日本");
        assert_eq!(cut("日本日本", 6), "日本…");
        assert_eq!(cut("a\nb", 10), "a?b");
    }
}
