"""Generate names for experiments and tasks that were submitted without a name."""

_MANNERS = (
    "boldly briskly calmly cheerfully cleverly clearly deftly duly eagerly early evenly fairly firmly "
    "fondly freely freshly gently gladly happily highly humbly jointly keenly kindly lightly likely "
    "lively loosely loudly merrily mildly neatly newly nicely nobly oddly openly partly plainly politely "
    "promptly purely quickly quietly rarely readily richly rightly roughly safely sharply simply slowly "
    "smoothly softly solely steadily surely swiftly truly vastly warmly widely wisely"
)
_QUALITIES = (
    "able active agile amber ample apt awake azure balmy brave bright brisk calm candid civil clear crisp "
    "curious daring dear deep eager earnest easy equal exact fair fancy fit fleet fond frank fresh gentle "
    "glad golden good grand happy hardy honest humble jolly keen kind late lively lucid lucky merry "
    "mighty modest neat noble novel patient proud quick quiet rapid ready rosy"
)
_ANIMALS = (
    "adder alpaca antelope badger bat bear beaver bison bobcat buzzard camel caribou cheetah cobra condor "
    "coyote crane cricket dolphin donkey dove eagle egret falcon ferret finch fox gazelle gecko goose "
    "gopher heron hippo ibex ibis impala jackal jaguar kestrel kiwi koala lemur leopard lizard llama lynx "
    "magpie marmot marten moose newt ocelot orca osprey otter panda pelican puffin quail rabbit raven "
    "seal stork tapir"
)


def petname(seed: int) -> str:
    """Return three words, such as `kindly-brave-otter`. The same number always gives the same words."""
    # Multiplying by an odd constant gives neighbouring seeds different words.
    spread = (seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) % 2**64 >> 16
    words = []
    for text in (_ANIMALS, _QUALITIES, _MANNERS):
        choices = text.split()
        spread, index = divmod(spread, len(choices))
        words.append(choices[index])
    return "-".join(reversed(words))
