"""Word lists. The HELD_ lists are for judging only and must never meet a training conversation."""

from __future__ import annotations

NAMES = """
Ada Alan Amira Anders Anja Arno Astrid Basil Bea Bernd Bianca Bilal Birgit Caleb Carmen Celia Chiara
Cyrus Dalia Damian Daphne Darius Dinah Doris Edgar Elias Elke Emil Enzo Esther Ewan Fabian Farah
Felicia Fergus Flora Frida Gavin Gemma Gideon Gloria Gordon Gustav Hamid Harriet Hazel Helga Hilda
Holly Idris Imran Ingrid Isaac Ivy Jasmin Jasper Jenny Jerome Joan Joel Jorge Josef Joyce Kamal
Karin Keiko Kurt Leila Leon Lidia Lionel Livia Lorenz Lotte Luca Magda Malik Marcel Margo Marta
Mateo Matilda Melvin Mira Mohan Naomi Nestor Nico Niels Noor Norman Ole Olive Oskar Paolo Pascal
Patrick Penny Petar Quentin Rachel Ralf Ramona Rene Roland Rosalind Rufus Sadie Salim Selena Sergio
Silas Sonja Stella Sven Tanja Teresa Thea Theresa Timon Tobin Ulla Umberto Valerie Vera Viktor
Viola Walid Wendel Wilma Xaver Yasmin Yvette Zack Zelda
""".split()
HELD_NAMES = "Aurel Benita Corin Delphine Eamon Fenja Gilda Hakon Ilka Jorin Kasia Lubo".split()

NOUNS = """
acorn almond apron arrow attic axle bakery banjo barley beacon beard bench berry bishop blossom
board boot bottle bowl branch bread brick broom brush bucket butter cabin cable candle canvas carpet
carrot cellar chain chalk cheese chest chimney cider circle cliff clock cloth clover coach coal
coat coffee collar comb copper cord cork corn cotton cousin cradle crate cream creek crown curtain
daisy desk diary dish dock drawer dress drum dust eagle easel egg elbow elm envelope fabric fence
fern field flame flask flour flute folder fork fountain frame fruit garlic gate ginger glacier glass
glue grain grape grass gravel hammer handle harp hat hay hedge hinge honey hook horn hose iron
ivory jacket jar jewel jug kettle key kitten lace ladder lake lamp lantern lawn leaf leather ledge
lemon letter lid lime linen loaf lock log loom magnet maple market mask meadow melon mill mint
mirror mitten moss nail needle nest net notebook oak oar olive onion orchard oven paddle page paint
pan paper parcel path peach pearl pebble pencil pepper petal piano pillow pine pipe plank plate plum
pocket pond porch potato powder quill quilt raft rail rake ribbon rice ring river road rope rose
rug saddle salt sand saw scale scarf seed shed sheet shelf shell shoe silk silver sled soap sock
spade spice spoon square stable stamp steam stone stool storm straw stream sugar swing table tar
thread ticket tile tin toast tower trail tray tunnel turnip twig valley vase velvet vine wagon wall
wax well wheat wheel whistle window wire wood wool yard yarn
""".split()
HELD_NOUNS = "abacus bobbin cymbal dagger emerald furrow gondola hatchet inkwell juniper".split()

HEROES = """
badger baker beetle bell bison boat carpenter cat clerk cobbler cook crane crow deer dog donkey
dove dragon duck dwarf elf ferryman finch fisher fox frog gardener ghost giant goat goose hare hen
heron horse hunter juggler kite knight lamb lantern lark lion lynx magpie mason miller mole mouse
mule newt nurse owl ox painter pig pilot piper pony porter prince princess puppy queen rabbit ram
raven robin robot sailor seal shepherd singer smith snail snowman sparrow spider squirrel stork swan
tailor teacher toad trader troll weaver whale wizard wolf wren
""".split()
HELD_HEROES = "marmot plumber pelican cricket typist salmon armadillo ladle".split()

ADJECTIVES = "brave calm clever curious gentle grumpy honest kind lonely merry quiet shy".split()
PLACES = "bay cave farm forest harbour hill island market meadow mill pond tower valley".split()
COLOURS = "red blue green yellow white black brown orange purple pink grey silver".split()
COUNTED = (
    "apples bags beans boxes buttons cakes coins cups figs nails nuts pens plums seeds".split()
)
TREASURES = [
    *("red kite", "brass key", "old map", "warm coat", "tin whistle", "blue shell", "wool hat"),
    *("small lamp", "round mirror", "paper crown", "silver spoon", "glass bead", "oak chest"),
]
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = (
    "January February March April May June July August September October November December".split()
)
ORDINALS = "first second third fourth fifth".split()
LETTERS = "abcdefghijklmnopqrstuvwxyz"
