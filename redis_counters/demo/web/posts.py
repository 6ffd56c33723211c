"""The twenty posts of the page. A post is known by its number, from 1 on; a number from a browser is checked here."""

from __future__ import annotations

from dataclasses import dataclass

NAMESPACE = "likes"  # of the counters; the demo's own keys begin with another word


@dataclass(frozen=True, slots=True)
class Post:
    """One card. Texts are plain text: the page shows markup in them as it stands."""

    number: int
    author: str
    title: str
    text: str

    @property
    def counter(self) -> str:
        """The name of its counter."""
        return f"post:{self.number}"

    @property
    def initials(self) -> str:
        """The first letters of the author's first two words."""
        return "".join(word[0] for word in self.author.split()[:2] if word[0].isalpha()).upper()


_TEXTS = (
    ("Harbour Walks", "The harbour before six", "Nobody but the gulls, and they were not talking to me."),
    ("Garden Gate", "I finally fixed the gate", "It took eleven years and four minutes."),
    ("Slow Bread", "Bread, attempt nineteen", "Now it is round, brown, and makes the right sound when you knock."),
    ("Night Trains", "Night train to the coast", "Fell asleep in the rain, woke up beside the sea."),
    ("Marsh Birds", "A heron stood on my desk", "The window was open. We looked at each other for a while."),
    ("Angle <b>Brackets</b>", "<script>alert('hi')</script> & other names", "A title is text, whatever stands in it."),
    ("Jam Season", "Apricots, all at once", "Forty jars. The neighbours have stopped opening the door."),
    ("Polar Sky", "Two minutes of northern light", "Green first, then a colour that I have no word for."),
    ("Town Clock", "The slowest clock in town", "It is right once a day, and everybody waits for it."),
    ("Hill Farm", "We counted the sheep", "Three of us, three results. So we counted again."),
    ("Paper Maps", "A map drawn from memory", "The river is wrong. My grandmother's house is not."),
    ("Rain Diary", "First rain of the year", "The whole street came out to stand in it."),
    ("Reading Room", "The library cat has a card", "Borrowed so far: one mouse, returned late."),
    ("Volcano Path", "Up the volcano, slowly", "Two steps forward, one step back, the whole way in ash."),
    ("Kitchen Garden", "My tomatoes have an audience", "Every morning at eight, the same two sparrows."),
    ("River Bridge", "The bridge is open again", "I crossed it four times, just because I could."),
    ("Old Letters", "A letter from 1974", "It was behind the drawer. It was for me."),
    ("Fog Line", "Fog, and then the mountain", "We had already turned round when it appeared."),
    ("Tea House", "The smallest tea house", "Two seats. One of them belongs to the owner's dog."),
    ("Late Lessons", "Learning to whistle at sixty", "Quietly, in the garden, when the wind helps."),
)

POSTS = tuple(Post(number, *texts) for number, texts in enumerate(_TEXTS, 1))
COUNTERS = tuple(post.counter for post in POSTS)


def find(number: str) -> Post | None:
    """Return the post of this number, None for anything else."""
    known = {str(post.number): post for post in POSTS}
    return known.get(number)
