//! The fuzzer's bytes as choices.

use arbitrary::Unstructured;

/// Draws choices from bytes. After the last byte, every choice is the first one.
pub(crate) struct Choices<'a>(Unstructured<'a>);

impl<'a> Choices<'a> {
    pub(crate) fn new(input: &'a [u8]) -> Self {
        Self(Unstructured::new(input))
    }

    pub(crate) fn are_used_up(&self) -> bool {
        self.0.is_empty()
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0
            .int_in_range(0..=end.saturating_sub(1))
            .unwrap_or_default()
    }

    /// True once in `times`, and never after the last byte.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == times - 1
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.once_in(2)
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0.arbitrary().unwrap_or_default()
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Up to `most` raw bytes.
    pub(crate) fn bytes(&mut self, most: usize) -> &'a [u8] {
        let len = self.below(most + 1).min(self.0.len());
        self.0.bytes(len).unwrap_or_default()
    }

    pub(crate) fn text(&mut self, most: usize) -> String {
        String::from_utf8_lossy(self.bytes(most)).into_owned()
    }

    /// All remaining bytes.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.0.take_rest()
    }
}
