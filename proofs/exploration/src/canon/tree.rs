//! A text in `Debug` format as a tree.

use super::Token;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tree<'t> {
    /// A number, a word, or a quoted text.
    Atom(&'t str),
    /// Something in brackets, with the name before them if it has one.
    Group(Group<'t>),
    /// What was worked out for a value, in its place.
    Token(Token),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group<'t> {
    pub(crate) name: &'t str,
    pub(crate) items: Vec<Item<'t>>,
}

/// A field of a struct, an entry of a map, or an element without a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item<'t> {
    pub(crate) key: Option<Tree<'t>>,
    pub(crate) value: Tree<'t>,
}

impl<'t> Tree<'t> {
    pub(crate) const NOTHING: Self = Self::Atom("");

    pub(crate) fn read(text: &'t str) -> Self {
        Reader { text, place: 0 }.value()
    }

    /// The value of this field, wherever it is one: in the struct itself or inside `Some`.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        let found = self.items().iter().find(|it| it.is_called(name));
        found.map(|it| &it.value)
    }

    pub(crate) fn field_mut(&mut self, name: &str) -> Option<&mut Self> {
        let mut items = self.items_mut()?.iter_mut();
        let found = items.find(|it| it.is_called(name));
        found.map(|it| &mut it.value)
    }

    /// The value at the end of these fields.
    pub(crate) fn at(&self, names: &[&str]) -> Option<&Self> {
        names.iter().try_fold(self, |tree, name| tree.field(name))
    }

    pub(crate) fn at_mut(&mut self, names: &[&str]) -> Option<&mut Self> {
        let mut tree = self;
        for name in names {
            tree = tree.field_mut(name)?;
        }
        Some(tree)
    }

    /// Removes the values of these fields.
    pub(crate) fn cut(&mut self, names: &[&str]) {
        if let Some(items) = self.items_mut() {
            items.retain(|it| !names.iter().any(|name| it.is_called(name)));
        }
    }

    /// Puts something else into the place of a field.
    pub(crate) fn put(&mut self, name: &str, value: Self) {
        if let Some(place) = self.field_mut(name) {
            *place = value;
        }
    }

    /// Removes the value at the end of these fields, and returns it.
    pub(crate) fn take(&mut self, names: &[&str]) -> Self {
        let found = self.at_mut(names);
        found.map_or(Self::NOTHING, |it| core::mem::replace(it, Self::NOTHING))
    }

    pub(crate) fn items(&self) -> &[Item<'t>] {
        match self {
            Self::Group(group) => &group.items,
            Self::Atom(_) | Self::Token(_) => &[],
        }
    }

    pub(crate) fn items_mut(&mut self) -> Option<&mut Vec<Item<'t>>> {
        match self {
            Self::Group(group) => Some(&mut group.items),
            Self::Atom(_) | Self::Token(_) => None,
        }
    }

    /// The name of a struct, a variant or a word.
    pub(crate) fn name(&self) -> &'t str {
        match self {
            Self::Atom(name) => name,
            Self::Group(group) => group.name,
            Self::Token(_) => "",
        }
    }

    /// What `Some` or another variant of one value contains.
    pub(crate) fn inner(&self) -> Option<&Self> {
        self.items().first().map(|it| &it.value)
    }

    pub(crate) fn inner_mut(&mut self) -> Option<&mut Self> {
        self.items_mut()?.first_mut().map(|it| &mut it.value)
    }

    /// The number in it, as in `RequestId(3)`.
    pub(crate) fn number(&self) -> Option<u64> {
        match self {
            Self::Atom(text) => text.parse().ok(),
            Self::Group(_) => self.inner()?.number(),
            Self::Token(_) => None,
        }
    }

    /// Calls this for each part with the name, from the outside in.
    pub(crate) fn each(&mut self, name: &str, change: &mut impl FnMut(&mut Self)) {
        if self.name() == name {
            change(self);
        }
        if let Self::Group(group) = self {
            for item in &mut group.items {
                item.value.each(name, change);
            }
        }
    }
}

impl Item<'_> {
    fn is_called(&self, name: &str) -> bool {
        matches!(self.key, Some(Tree::Atom(key)) if key == name)
    }
}

/// All that separates values is ASCII, so it is never a part of another character.
struct Reader<'t> {
    text: &'t str,
    place: usize,
}

impl<'t> Reader<'t> {
    fn value(&mut self) -> Tree<'t> {
        self.skip_spaces();
        let from = self.place;
        if self.next() == Some(b'"') {
            return self.quoted();
        }
        while let Some(c) = self.next()
            && !matches!(
                c,
                b'{' | b'}' | b'(' | b')' | b'[' | b']' | b',' | b':' | b' '
            )
        {
            self.place += 1;
        }
        let word = &self.text[from..self.place];
        self.skip_spaces();
        let end = match self.next() {
            Some(b'{') => b'}',
            Some(b'(') => b')',
            Some(b'[') => b']',
            _ => return Tree::Atom(word),
        };
        self.place += 1;
        let mut items = Vec::new();
        loop {
            self.skip_spaces();
            match self.next() {
                None => break,
                Some(c) if c == end => {
                    self.place += 1;
                    break;
                }
                Some(b',') => self.place += 1,
                Some(_) => items.push(self.item()),
            }
        }
        Tree::Group(Group { name: word, items })
    }

    fn item(&mut self) -> Item<'t> {
        let before = self.place;
        let value = self.value();
        self.skip_spaces();
        if self.next() == Some(b':') {
            self.place += 1;
            return Item {
                key: Some(value),
                value: self.value(),
            };
        }
        // What is not in this format must not be read for ever.
        if self.place == before {
            self.place += 1;
        }
        Item { key: None, value }
    }

    fn quoted(&mut self) -> Tree<'t> {
        let from = self.place;
        self.place += 1;
        let mut is_escaped = false;
        while let Some(c) = self.next() {
            self.place += 1;
            if c == b'"' && !is_escaped {
                break;
            }
            is_escaped = !is_escaped && c == b'\\';
        }
        Tree::Atom(&self.text[from..self.place])
    }

    fn next(&self) -> Option<u8> {
        self.text.as_bytes().get(self.place).copied()
    }

    fn skip_spaces(&mut self) {
        while self.next() == Some(b' ') {
            self.place += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_entries_and_variants_are_found() {
        let text = r#"A { b: Some(C { d: 3, e: "a, \"b\": {" }), f: {Id(1): (X, Y(2.5s)), Id(2): ()}, g: [], h: {Z} }"#;
        let mut tree = Tree::read(text);
        assert_eq!(tree.name(), "A");
        let c = tree.at(&["b"]).and_then(Tree::inner).expect("a value");
        assert_eq!(c.field("d").and_then(Tree::number), Some(3));
        assert_eq!(c.field("e"), Some(&Tree::Atom(r#""a, \"b\": {""#)));
        let entries = tree.field("f").expect("a map").items();
        let ids = entries.iter().map(|it| it.key.as_ref()?.number());
        assert!(ids.eq([Some(1), Some(2)]), "{entries:?}");
        assert_eq!(entries[0].value.items()[1].value.name(), "Y");
        assert_eq!(tree.field("h").expect("a set").items().len(), 1);
        let taken = tree.take(&["b"]);
        assert_eq!(taken.name(), "Some");
        tree.cut(&["f", "g"]);
        assert_eq!(tree.items().len(), 2);
        let mut found = 0;
        tree.each("Z", &mut |_| found += 1);
        assert_eq!(found, 1);
    }
}
