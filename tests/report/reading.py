"""A page as a parser of HTML sees it."""

from html.parser import HTMLParser


class Page(HTMLParser):
    """Elements with their attributes, text outside of scripts and styles, and the latter."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.text, self.scripts, self.styles = [], [], [], []
        self._open = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in {"meta", "link", "img", "br", "input"}:
            self._open.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        opened, _ = self._open.pop()
        assert opened == tag

    def handle_data(self, data):
        tag, attributes = self._open[-1] if self._open else ("", {})
        if tag == "script":
            self.scripts.append((attributes.get("type"), data))
        elif tag == "style":
            self.styles.append(data)
        else:
            self.text.append(data)

    def all(self, tag):
        return [attributes for found, attributes in self.elements if found == tag]

    @property
    def words(self):
        return " ".join(" ".join(self.text).split())

    @property
    def programs(self):
        """Scripts that a browser runs."""
        return [text for kind, text in self.scripts if kind is None]
