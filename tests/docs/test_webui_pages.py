"""The page with pictures of the WebUI shows the pictures of its script, and stays small."""

from scripts import webui_pictures
from scripts.webui_pictures import PICTURES

MOST_BYTES = 1_500_000


def test_page_shows_every_picture_of_the_script() -> None:
    pictures = {f"{name}.webp" for name in webui_pictures.shots(1, 1)}
    assert set(webui_pictures.named()) == pictures
    assert {picture.name for picture in PICTURES.iterdir()} == pictures


def test_pictures_are_small() -> None:
    assert sum(picture.stat().st_size for picture in PICTURES.iterdir()) < MOST_BYTES
